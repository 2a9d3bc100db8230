"""Guards: files that other programs run or obey, and secrets, are asked about whatever a rule allows."""

from __future__ import annotations

import contextlib
import shutil
import tomllib
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

from dragoman import config
from dragoman.errors import ConfigError
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.guards import default_guards, user_guards
from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.remembered import derive
from dragoman.host.policy.rulebook import RuleSources
from dragoman.host.policy.rules import PolicyRule
from dragoman.record import notes
from dragoman.wire.connection import RpcRefusal
from dragoman.workspace import Workspace

from .conftest import Build
from .running import ran

EVERYTHING = [PolicyRule("allow")]


def wants(kind: str, *paths: Path | str, **more: Any) -> PermissionRequest:
    return PermissionRequest(
        session_id="s", tool_call_id="t", title="t", kind=kind, options=(), paths=tuple(map(str, paths)), **more
    )


def decision(kind: str, path: Path, workspace: Workspace, **settings: Any) -> str:
    return build_policy("edit-inside", **settings).judge(wants(kind, path), workspace).decision


RUN_BY_OTHERS = [
    *(".git/config", ".git", ".gitmodules", ".hg/hgrc", ".svn/hooks/pre-commit", ".jj/repo/config.toml"),
    *(".claude/settings.json", ".claude/settings.local.json", ".claude/agents/x.md", ".claude.json", ".mcp.json"),
    *(".cursor/mcp.json", ".cursor/rules/x.mdc", ".codex/config.toml", ".gemini/settings.json", ".qwen/settings.json"),
    *(".opencode/plugin/x.ts", "opencode.json", ".kimi/mcp.json", ".config/goose/config.yaml", ".clinerules"),
    *(".vscode/tasks.json", "x.code-workspace", ".idea/runConfigurations/x.xml", ".zed/tasks.json", ".nvim.lua"),
    *(".devcontainer/devcontainer.json", ".dir-locals.el", ".exrc", ".ycm_extra_conf.py"),
    *(".kimi-code/mcp.json", ".claude-plugin/plugin.json", ".github/agents/x.md", "gemini-extension.json", ".cline/x"),
    *(".pi/extensions/x.ts", ".nanocoder/tools/x.md", ".agents/skills/x/SKILL.md", ".copilot/mcp-config.json"),
    *(".env", "sub/.env.local", ".flaskenv", ".mvn/extensions.xml", ".bazelrc", "bunfig.toml", "ansible.cfg"),
    *(".envrc", ".husky/pre-commit", "lefthook.yml", ".pre-commit-config.yaml", "mise.toml", ".npmrc", ".yarnrc.yml"),
    *(".yarn/releases/yarn.cjs", ".pnpmfile.cjs", ".cargo/config.toml", "sitecustomize.py", ".gdbinit"),
    *(".github/workflows/ci.yml", ".github/actions/x/action.yml", ".gitlab-ci.yml", ".circleci/config.yml"),
    *("Jenkinsfile", ".ci/run", "azure-pipelines.yml"),
    *(".bashrc", ".profile", ".zshrc", ".zshenv", ".config/fish/config.fish", ".bash_profile", ".inputrc"),
    *(".ssh/authorized_keys", ".ssh/config", ".gnupg/gpg.conf", ".netrc", ".aws/config", ".docker/config.json"),
    *(".config/autostart/x.desktop", ".config/systemd/user/x.service", "Library/LaunchAgents/x.plist"),
]
SPELLINGS = [
    *(".GIT/config", ".Claude/settings.json", "sub/.VSCode/tasks.json", ".g\u200cit/config", ".git./config"),
    *(".git /config", ".git::$INDEX_ALLOCATION/config", "GIT~1/config", ".Bashrc", "deep/er/.envrc"),
]
SECRETS = [
    *(".env", ".env.local", ".env.production", "sub/.ENV", "prod.env", ".envrc", "server.pem", "tls.key", "id_rsa"),
    *("deploy/id_ed25519", ".ssh/id_rsa", ".ssh/config", ".netrc", ".pgpass", ".npmrc", ".aws/credentials"),
    *("credentials.json", "secrets.yaml", "x.tfvars", "store.jks", "cert.p12", ".git-credentials"),
]
ORDINARY = [
    *("src/main.py", "README.md", ".gitignore", ".github/ISSUE_TEMPLATE.md", "git/config", "envrc", "claude/x"),
    *("package.json", "Makefile", "env.py", "keys.md", "src/environment.ts", ".gitkeep", "vscode/x", "pem.txt"),
    *(".env.example", ".env.sample", "id_rsa.pub", ".dockerignore", "Dockerfile", ".editorconfig", ".prettierrc"),
]


@pytest.mark.attempts("guarded files")
@pytest.mark.parametrize("name", [*RUN_BY_OTHERS, *SPELLINGS])
def test_files_that_other_programs_run_are_asked_about_before_they_are_written(workspace: Workspace, name: str) -> None:
    path = workspace.cwd / name
    for kind in ("edit", "delete", "move"):
        assert decision(kind, path, workspace) == "ask"
    assert decision("edit", path, workspace, user=EVERYTHING, session=EVERYTHING, run=EVERYTHING) == "ask"
    verdict = build_policy("edit-inside").judge(wants("edit", path), workspace)
    assert verdict.layer == "guard"
    assert ", which always needs your approval: " in verdict.reason
    assert build_policy("full").judge(wants("edit", path), workspace).decision == "allow"


@pytest.mark.attempts("guarded files")
@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_asked_about_before_they_are_read(workspace: Workspace, name: str) -> None:
    path = workspace.cwd / name
    assert decision("read", path, workspace) == "ask"
    assert decision("search", path, workspace, user=EVERYTHING, session=EVERYTHING, run=EVERYTHING) == "ask"
    assert build_policy("read-only").judge(wants("read", path), workspace).layer == "guard"
    assert build_policy("full").judge(wants("read", path), workspace).decision == "allow"


@pytest.mark.parametrize("name", ORDINARY)
def test_other_files_are_read_and_written_unasked(workspace: Workspace, name: str) -> None:
    assert decision("edit", workspace.cwd / name, workspace) == "allow"
    assert decision("read", workspace.cwd / name, workspace) == "allow"


@pytest.mark.attempts("guarded files")
def test_a_folder_above_a_guarded_one_is_asked_about_too(workspace: Workspace) -> None:
    assert decision("move", workspace.cwd / ".github", workspace) == "ask"
    assert decision("edit", workspace.cwd / ".github/labels.yml", workspace) == "allow"


@pytest.mark.attempts("guarded files")
def test_a_link_does_not_hide_what_is_guarded(workspace: Workspace) -> None:
    (workspace.cwd / ".vscode").mkdir()
    (workspace.cwd / "innocent").symlink_to(".vscode")
    (workspace.cwd / "settings").mkdir()
    (workspace.cwd / ".cursor").symlink_to("settings")
    (workspace.cwd / "notes.txt").symlink_to(".env")
    assert decision("edit", workspace.cwd / "innocent/tasks.json", workspace) == "ask"
    assert decision("edit", workspace.cwd / ".cursor/mcp.json", workspace) == "ask"
    assert decision("read", workspace.cwd / "notes.txt", workspace) == "ask"


def test_the_folders_above_the_workspace_do_not_count(tmp_path: Path) -> None:
    folder = tmp_path / ".claude" / "worktrees" / "x"
    folder.mkdir(parents=True)
    assert decision("edit", folder / "main.py", Workspace(folder)) == "allow"


@pytest.mark.attempts("guarded files")
def test_a_tool_of_unknown_kind_that_names_a_guarded_file_is_asked_about(workspace: Workspace) -> None:
    for name in (".env", ".mcp.json"):
        request = wants("other", raw_input={"path": name})
        assert build_policy("edit-inside", user=EVERYTHING).judge(request, workspace).decision == "ask"


def test_the_lists_ship_with_the_package_and_describe_their_fields() -> None:
    text = (resources.files("dragoman.host.policy") / "guards.toml").read_text(encoding="utf-8")
    schema = text[: text.index("\n[[")]
    tables = tomllib.loads(text)
    assert set(tables) == {"write", "read"}
    for table in tables:
        assert f"[[{table}]]" in schema
    for guard in (*default_guards().write, *default_guards().read):
        assert guard.reason
        assert not any(path.startswith("/") or ".." in path.split("/") for path in guard.paths)


# The user's own


def settings(folder: Path, text: str) -> config.Config:
    folder.mkdir(exist_ok=True)
    (folder / "config.toml").write_text(text)
    return config.load(folder, {})


def test_the_user_adds_to_the_lists_and_takes_from_them(workspace: Workspace, tmp_path: Path) -> None:
    text = '[guards]\nwrite = ["deploy/*.sh", "~/kept"]\nread = ["customers"]\nwithout = [".vscode", ".env.test"]\n'
    guards = user_guards(settings(tmp_path / "home", text))
    answers = {
        ("edit", "deploy/live.sh"): "ask",
        ("edit", "sub/deploy/live.sh"): "ask",
        ("edit", "deploy/notes.md"): "allow",
        ("read", "data/customers/1.json"): "ask",
        ("edit", ".vscode/tasks.json"): "allow",
        ("edit", ".cursor/mcp.json"): "ask",
        ("read", ".env.test"): "allow",
        ("read", ".env"): "ask",
    }
    for (kind, name), expected in answers.items():
        assert decision(kind, workspace.cwd / name, workspace, guards=guards) == expected, name
    reason = build_policy("edit-inside", guards=guards).judge(wants("read", workspace.cwd / "customers"), workspace)
    assert reason.reason.endswith("which always needs your approval: you added it to [guards] in config.toml")


@pytest.mark.attempts("guarded files")
@pytest.mark.parametrize("without", [".dragoman", "*", ".d*", ".dragoman/policy.toml"])
def test_the_folder_with_our_own_rules_stays_guarded(workspace: Workspace, tmp_path: Path, without: str) -> None:
    guards = user_guards(settings(tmp_path / "home", f'[guards]\nwithout = ["{without}"]\n'))
    assert decision("edit", workspace.cwd / ".dragoman/policy.toml", workspace, guards=guards) == "ask"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('write = ".vscode"', r"config\.toml:2: write is a string; expected an array of names"),
        ("read = [1]", r"config\.toml:2: read .*expected an array of names"),
        ('wirte = ["x"]', r'config\.toml:2: there is no setting "wirte"; did you mean "write"'),
        ('read = ["../x"]', r"config\.toml:2: read .*without `\.\.`"),
    ],
)
def test_a_mistake_in_the_list_is_an_error_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        user_guards(settings(tmp_path, f"[guards]\n{text}\n"))


def test_an_always_is_remembered_for_what_the_user_took_from_the_list(workspace: Workspace, tmp_path: Path) -> None:
    request = wants("read", workspace.cwd / ".env")
    assert derive(request, workspace, "allow").error.endswith("it may hold keys or passwords")
    guards = user_guards(settings(tmp_path / "home", '[guards]\nwithout = [".env"]\n'))
    assert derive(request, workspace, "allow", guards=guards).rules


# Through a host


async def test_a_question_about_a_guarded_file_says_why(agent_with: Build, workspace: Workspace) -> None:
    questions: list[PermissionRequest] = []

    def answer(request: PermissionRequest) -> bool:
        questions.append(request)
        return request.kind == "read"

    (workspace.cwd / ".env").write_text("KEY=1")
    agent = agent_with(access="edit-inside", on_permission=answer)
    assert (await agent.ask("fs/read_text_file", path=f"{workspace.cwd}/.env"))["content"] == "KEY=1"
    await agent.refused("fs/write_text_file", path=f"{workspace.cwd}/.mcp.json", content="{}")
    await agent.permission(kind="execute", rawInput={"command": "make"})
    assert [request.reason.rpartition(": ")[2] for request in questions] == [
        "it may hold keys or passwords",
        "an agent takes settings, hooks, commands or MCP servers from it",
        "",
    ]
    assert not (workspace.cwd / ".mcp.json").exists()


async def test_the_reason_is_noted_after_the_question_and_before_the_answer(
    agent_with: Build, workspace: Workspace
) -> None:
    agent = agent_with(access="edit-inside", on_permission=lambda request: False)
    await agent.refused("fs/write_text_file", path=f"{workspace.cwd}/.mcp.json", content="{}")
    await agent.permission(kind="edit", locations=[{"path": f"{workspace.cwd}/.mcp.json"}])
    await agent.permission(kind="execute", rawInput={"command": "make"})
    kinds = [type(note) for note in agent.notes]
    ours = [notes.File, notes.PermissionRequested, notes.PermissionGuarded, notes.Decision]
    assert kinds == [*ours, notes.PermissionGuarded, notes.Decision, notes.Decision]
    reasons = [note.reason for note in agent.notes if isinstance(note, notes.PermissionGuarded)]
    assert all(".mcp.json, which always needs your approval: " in reason for reason in reasons)


async def test_the_users_list_holds_in_a_session(agent_with: Build, workspace: Workspace, tmp_path: Path) -> None:
    guards = user_guards(settings(tmp_path / "home", '[guards]\nwrite = ["notes.txt"]\nwithout = [".vscode"]\n'))
    agent = agent_with(access="edit-inside", sources=RuleSources(guards=guards))  # nobody is there to be asked
    await agent.ask("fs/write_text_file", path=f"{workspace.cwd}/.vscode/tasks.json", content="{}")
    error = await agent.refused("fs/write_text_file", path=f"{workspace.cwd}/notes.txt", content="x")
    assert "you added it to [guards] in config.toml; nobody to ask" in error.message


@pytest.mark.attempts("planted repositories")
@pytest.mark.skipif(shutil.which("git") is None, reason="needs git")
@pytest.mark.parametrize("folder", [".", "evil"])
@pytest.mark.parametrize("command", [["status"], ["-C", "evil", "status"], ["--git-dir=evil", "status"]])
async def test_a_planted_repository_runs_nothing(
    agent_with: Build, workspace: Workspace, tmp_path: Path, folder: str, command: list[str]
) -> None:
    rules = RuleSources(user=(PolicyRule("allow", command=["git status", "git *"]),))
    agent = agent_with(access="edit-inside", sources=rules)
    trace = tmp_path / "trace"
    core = f'[core]\nrepositoryformatversion = 0\nbare = false\nworktree = .\nfsmonitor = "touch {trace};:"\n'
    planted = {
        "HEAD": "ref: refs/heads/main\n",
        "config": core,
        "objects/x": "",
        "refs/x": "",
    }
    for place in {".", "evil"}:
        for name, text in planted.items():
            await agent.ask("fs/write_text_file", path=str(workspace.cwd / place / name), content=text)
    with contextlib.suppress(RpcRefusal):  # not allowed: nothing was run
        await ran(agent, "git", *command, cwd=str(workspace.cwd / folder))
    assert not trace.exists()
