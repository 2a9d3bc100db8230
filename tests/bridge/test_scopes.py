"""Scopes: no request, on any way, and no pair of requests lets a token do what its scope does not allow.

The agent `lax` is the demo agent, said to ask in its mode `ask` alone: in `plan` it counts as one that may act without
asking. Its own first mode is `code`.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin, get_type_hints

import httpx
import msgspec
import pytest

from attempts import Attempts
from bridge.socket_client import TIMEOUT_S, RealServer, SocketClient, real_server
from dragoman.bridge.auth import Caller
from dragoman.bridge.refusal import Refusal
from dragoman.config import make_home
from dragoman.errors import ScopeMissing
from dragoman.hub.commands import SentCommand, encode
from dragoman.journal.protocols import InboxCommand
from dragoman.protocol import requests
from dragoman.protocol.messages import SCOPES, Scope, includes
from dragoman.protocol.requests import REQUESTS, Declaration, Request
from dragoman.protocol.results import AnswerResult
from dragoman.protocol.worktrees import WorktreeChoice

SECRET = "a secret of the home folder"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = make_home(tmp_path / "home")
    (folder / "config.toml").write_text(
        f"""
        folders = ["{tmp_path}/configured"]

        [agents.lax]
        command = "{sys.executable}"
        args = ["-P", "-m", "dragoman.agents.demo"]
        env_prefix = ["DRAGOMAN_DEMO_"]
        asks_in = {{ mode = ["ask"] }}

        [[policy]]
        answer = "deny"
        kind = "read"
        path = "**/.env"
        """
    )
    (folder / "secrets").write_text(f'{{"agents": {{"x": {{"KEY": "{SECRET}"}}}}}}')
    return folder


@pytest.fixture
async def server(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[RealServer]:
    monkeypatch.setenv("DRAGOMAN_DEMO_PACE", "0")
    async with real_server(home) as server:
        yield server


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "configured" / "work"
    folder.mkdir(parents=True)
    (folder / ".env").write_text(SECRET)
    (folder / "notes.txt").write_text("notes\n")
    return folder


async def opened(client: SocketClient, folder: Path, **fields: object) -> str:
    result = await client.call("session.open", **{"agent": "lax", "cwd": str(folder), **fields})
    return str(result["session_id"])


async def forbidden(client: SocketClient, type_: str, **fields: object) -> str:
    """The message with which a request is refused for its scope."""
    error = await client.call_refused(type_, **fields)
    assert error["kind"] == "forbidden", (type_, fields, error)
    return str(error["message"])


async def pending_permission(client: SocketClient, session_id: str, prompt: str) -> str:
    """Send a prompt, and return the id of the permission that the agent then asks for."""
    view = await client.follow(session_id)
    known = {row["id"] for row in view.rows("permissions")}
    await client.call("session.prompt", session_id=session_id, text=prompt)

    def new_ids(view: Any) -> list[str]:
        return [row["id"] for row in view.rows("permissions") if row["id"] not in known]

    await client.wait_for(view, lambda view: bool(new_ids(view)))
    return new_ids(view)[0]


async def settle(client: SocketClient, session_id: str) -> None:
    view = await client.follow(session_id)
    await client.wait_for(view, lambda view: view.settled)


# -- every request with every scope


def sample(type_: Any) -> Any:
    """A value of the type of a required field."""
    if get_origin(type_) is Literal:
        return get_args(type_)[0]
    if get_origin(type_) is tuple:
        return ()
    options = get_args(type_) or (type_,)
    return next((value for kind, value in ((str, "x"), (int, 1), (float, 1.0), (bool, True)) if kind in options), None)


def sample_fields(declaration: Declaration, folder: Path) -> dict[str, Any]:
    hints = get_type_hints(declaration.request)
    fields = {
        field.name: sample(hints[field.name]) for field in msgspec.structs.fields(declaration.request) if field.required
    }
    if declaration.request is requests.SessionOpen:
        fields |= {"cwd": str(folder), "agent": "no such agent"}
    return fields


def route_request(declaration: Declaration, fields: dict[str, Any]) -> tuple[str, str, dict[str, Any]] | None:
    """The method, the path and the options of the HTTP form of a request; None where it has none."""
    if (route := declaration.route) is None:
        return None
    rest = {name: value for name, value in fields.items() if name not in route.path_fields}
    return route.method, route.path.format(**fields), {"json": rest} if route.has_body else {"params": rest}


@pytest.mark.attempts("scopes")
async def test_each_request_needs_its_declared_scope_whichever_way_it_comes(
    server: RealServer, work: Path, attempts: Attempts
) -> None:
    wrong: list[tuple[str, Scope, str, bool]] = []
    for scope in SCOPES:
        headers = {"authorization": f"Bearer {server.token(scope)}"}
        url = f"http://127.0.0.1:{server.port}"
        async with (
            httpx.AsyncClient(base_url=url, headers=headers, trust_env=False, timeout=TIMEOUT_S) as http,
            server.client(scope) as socket,
        ):
            for declaration in REQUESTS.values():
                fields = sample_fields(declaration, work)
                allowed = includes(scope, declaration.scope)
                message = {"type": declaration.name, "id": "1", **fields}
                answer = await socket.request(declaration.name, **fields)
                kinds = {"socket": answer.get("error", {}).get("kind")}
                kinds["requests"] = error_kind(await http.post("/v1/requests", json=message))
                if (by_route := route_request(declaration, fields)) is not None:
                    method, path, options = by_route
                    kinds["route"] = error_kind(await http.request(method, path, **options))
                attempts.add(0 if allowed else len(kinds))
                wrong += [
                    (declaration.name, scope, way, allowed)
                    for way, kind in kinds.items()
                    if (kind != "forbidden") is not allowed
                ]
    assert wrong == []


def error_kind(response: httpx.Response) -> str | None:
    kind = response.json()["error"]["kind"] if response.status_code >= 400 else None
    return str(kind) if kind is not None else None


# -- folders


@pytest.mark.attempts("scopes")
async def test_prompt_opens_sessions_only_where_an_admin_has_opened_or_configured(
    server: RealServer, work: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    (other / "below").mkdir(parents=True)
    (work / "link").symlink_to(other)
    async with server.client() as admin, server.client("prompt") as user:
        await opened(user, work)
        for folder in ("/", "/no-such-folder", str(other), str(work / "link"), str(tmp_path), "relative", "a\0b"):
            assert "admin" in await forbidden(user, "session.open", cwd=folder)
        await forbidden(user, "session.open", cwd=str(work), additional=[str(other)])
        await forbidden(user, "policy.list", cwd=str(other))
        session_id = await opened(admin, other)
        own = await opened(user, other / "below")
        # Only what an admin opens counts: with the admin's session the folder is closed again.
        await admin.call("session.rename", session_id=own, title="kept without a prompt")
        await admin.call("session.close", session_id=own)
        await admin.call("session.delete", session_id=session_id)
        await forbidden(user, "session.open", cwd=str(other / "below"))
        for request in ("session.resume", "session.load", "session.restart"):
            await forbidden(user, request, session_id=own)


@pytest.mark.attempts("scopes")
async def test_prompt_opens_no_session_in_a_folder_whose_files_are_always_asked_about(
    server: RealServer, work: Path
) -> None:
    """With `.git` as the workspace its `config` would be a file like any other."""
    (work / "plain").mkdir()
    async with server.client() as admin, server.client("prompt") as user:
        for name in (".git", ".git/hooks", ".GIT", ".claude", ".vscode", ".ssh", "plain/.github/workflows"):
            (work / name).mkdir(parents=True)
            assert "always need approval" in await forbidden(user, "session.open", agent="lax", cwd=str(work / name))
            additional = [str(work / name)]
            await forbidden(user, "session.open", agent="lax", cwd=str(work), additional=additional)
        (work / "alias").symlink_to(work / ".git")
        await forbidden(user, "session.open", agent="lax", cwd=str(work / "alias"))
        await opened(user, work / "plain")
        await opened(admin, work / ".git")
        await opened(user, work / ".git" / "hooks")  # an admin chose it


@pytest.mark.attempts("scopes")
async def test_a_folder_that_differs_by_capital_letters_is_another_one(server: RealServer, tmp_path: Path) -> None:
    other = tmp_path / "CONFIGURED"
    (tmp_path / "configured").mkdir()
    if other.exists():
        pytest.skip("this file system ignores case")
    other.mkdir()
    async with server.client("prompt") as user:
        await forbidden(user, "session.open", agent="lax", cwd=str(other))


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize("place", ["home", "above", "below"])
async def test_prompt_works_in_no_workspace_that_overlaps_the_home_folder(
    server: RealServer, home: Path, tmp_path: Path, place: str
) -> None:
    folder = {"home": home, "above": tmp_path, "below": home / "below"}[place]
    folder.mkdir(exist_ok=True)
    async with server.client() as admin, server.client("prompt") as user:
        session_id = await opened(admin, folder)
        assert "overlaps" in await forbidden(user, "session.open", cwd=str(folder))
        for request, fields in (("session.prompt", {"text": "hello"}), ("session.fork", {}), ("session.restart", {})):
            await forbidden(user, request, session_id=session_id, **fields)


# -- permissions


@pytest.mark.attempts("scopes")
async def test_prompt_allows_nothing_on_the_home_folder(server: RealServer, tmp_path: Path) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        before = [token.id for token in server.bridge.tokens.all()]
        session_id = await opened(admin, tmp_path)
        permission_id = await pending_permission(admin, session_id, "edit home/tokens.json")
        fields = {"session_id": session_id, "permission_id": permission_id}
        await forbidden(user, "permission.answer", **fields, answer="allow")
        await forbidden(user, "permission.answer", **fields, option_id="allow")
        await user.call("permission.answer", **fields, answer="reject")
        await settle(admin, session_id)
        assert [token.id for token in server.bridge.tokens.all()] == before


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize(
    "line",
    [
        "dragoman token create mine --scope admin",
        "cat {home}/secrets",
        "cat ../../home/secrets",
        "cp evil {home}/tokens.json",
        "cat ~/secrets",
        "cat $PLACE/secrets",
        "sh -c 'cat {home}/sec*'",
        "eval $LINE",
        "echo x > {home}/tokens.json",
        "cd {home} && cat secrets",
        "python3 -m dragoman token list",
        "cat .dragoman/policy.toml",
        "python3 .venv/bin/dragoman token create mine",
        "python3 -m dragoman.cli token list",
        "cat /etc/hostname",
        "cp notes.txt /tmp/",
        "echo x > /tmp/x",
    ],
)
async def test_prompt_allows_no_command_that_may_reach_the_home_folder(
    server: RealServer, home: Path, work: Path, line: str
) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        session_id = await opened(user, work)
        permission_id = await pending_permission(user, session_id, f"run {line.format(home=home)}")
        fields = {"session_id": session_id, "permission_id": permission_id}
        await forbidden(user, "permission.answer", **fields, answer="allow")
        await admin.call("permission.answer", **fields, answer="reject")


async def test_prompt_allows_edits_and_commands_in_the_workspace(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as user:
        session_id = await opened(user, work)
        for prompt in ("edit notes.txt", "run ls -l notes.txt", "run cat *.txt"):
            permission_id = await pending_permission(user, session_id, prompt)
            await user.call("permission.answer", session_id=session_id, permission_id=permission_id, answer="allow")
            await settle(user, session_id)
        assert (work / "notes.txt").read_text() != "notes\n"


# -- modes, options, access


@pytest.mark.attempts("scopes")
async def test_prompt_chooses_no_mode_in_which_the_agent_may_act_unasked(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as user:
        for fields in ({"mode": "plan"}, {"options": {"mode": "plan"}}, {"options": {"word_by_word": False}}):
            assert "without asking" in await forbidden(user, "session.open", agent="lax", cwd=str(work), **fields)
        session_id = await opened(user, work, mode="ask")
        await forbidden(user, "session.set_mode", session_id=session_id, mode="plan")
        await forbidden(user, "session.set_option", session_id=session_id, option_id="mode", value="plan")
        await user.call("session.set_mode", session_id=session_id, mode="code")  # its own first mode
        await user.call("session.set_option", session_id=session_id, option_id="model", value="demo-large")


@pytest.mark.attempts("scopes")
async def test_prompt_does_nothing_in_a_session_that_an_admin_has_set_free(server: RealServer, work: Path) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        session_id = await opened(admin, work)
        await admin.call("session.set_mode", session_id=session_id, mode="plan")
        for request, fields in (
            ("session.prompt", {"text": "hello"}),
            ("queue.add", {"text": "hello"}),
            ("session.fork", {}),
        ):
            assert "mode" in await forbidden(user, request, session_id=session_id, **fields)
        await user.call("session.restart", session_id=session_id)
        await forbidden(user, "session.prompt", session_id=session_id, text="hello")
        await user.call("session.set_mode", session_id=session_id, mode="ask")
        await user.call("session.prompt", session_id=session_id, text="hello")


@pytest.mark.attempts("scopes")
async def test_prompt_chooses_no_other_sandbox_than_the_configured_one(
    server: RealServer, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAGOMAN_SANDBOX", "landlock")
    async with server.client("prompt") as user:
        for sandbox in (False, "off", True, "bubblewrap"):
            assert "sandbox" in await forbidden(user, "session.open", cwd=str(work), sandbox=sandbox)


@pytest.mark.attempts("scopes")
async def test_an_agent_that_leaves_its_mode_by_itself_gets_no_more_prompts(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as user:
        session_id = await opened(user, work)
        await user.call("session.prompt", session_id=session_id, text="mode plan")
        await settle(user, session_id)
        await forbidden(user, "session.prompt", session_id=session_id, text="hello")


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize(
    "text",
    [
        *("/allow-all", " /allow-all on", "\n/yolo", "/permissions set x", "/approval-mode yolo", "/mode auto"),
        *("/add-dir /", "/mcp add x -- sh", "/MCP", "/autopilot", "/extensions install x", "!rm x", " !ls"),
    ],
)
async def test_prompt_sends_no_command_that_changes_what_the_agent_asks_about(
    server: RealServer, work: Path, text: str
) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        session_id = await opened(user, work)
        await forbidden(user, "session.prompt", session_id=session_id, text=text)
        await forbidden(user, "queue.add", session_id=session_id, text=text)
        await admin.call("session.prompt", session_id=session_id, text="sleep 600")
        await user.call("queue.add", session_id=session_id, text="hello", command_id="queued")
        await forbidden(user, "queue.edit", session_id=session_id, queued_id="queued", text=text)


async def test_prompt_sends_the_agents_other_commands(server: RealServer, work: Path) -> None:
    async with server.client("prompt") as user:
        session_id = await opened(user, work)
        for text in ("/plan", "/etc/hosts is a file", "/compact now", "say hello! /allow-all"):
            await user.call("session.prompt", session_id=session_id, text=text)
            await settle(user, session_id)


@pytest.mark.attempts("scopes")
async def test_a_queued_prompt_is_checked_again_when_it_is_sent(server: RealServer, work: Path) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        session_id = await opened(admin, work)
        await admin.call("session.prompt", session_id=session_id, text="sleep 600")
        await user.call("queue.add", session_id=session_id, text="stream 7", command_id="early")
        await admin.call("queue.add", session_id=session_id, text="stream 3", command_id="late")
        await user.call("queue.edit", session_id=session_id, queued_id="late", text="stream 9")
        await admin.call("queue.add", session_id=session_id, text="stream 5", command_id="last")
        await admin.call("session.set_mode", session_id=session_id, mode="plan")
        await admin.call("queue.send", session_id=session_id, queued_id="early")
        view = await admin.follow(session_id)
        await admin.wait_for(view, lambda view: len(view.rows("runs")) == 2 and view.settled)
        assert view.texts("user") == ["sleep 600", "stream 5"]


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize("fields", [{"access": "full"}, {"access": "edit-inside"}, {"network": True}])
async def test_prompt_continues_no_session_with_more_access_than_configured(
    server: RealServer, work: Path, fields: dict[str, object]
) -> None:
    async with server.client() as admin, server.client("prompt") as user:
        await forbidden(user, "session.open", agent="lax", cwd=str(work), **fields)
        session_id = await opened(admin, work, **fields)
        open_requests = ("session.fork", "session.load", "session.restart")
        for request in open_requests:
            await forbidden(user, request, session_id=session_id)
        await forbidden(user, "session.prompt", session_id=session_id, text="hello")
        await admin.call("session.rename", session_id=session_id, title="kept without a prompt")
        await admin.call("session.close", session_id=session_id)
        for request in ("session.resume", "session.load", "session.restart"):
            await forbidden(user, request, session_id=session_id)


@pytest.mark.attempts("scopes")
async def test_a_command_in_the_inbox_counts_with_the_scope_of_its_sender(server: RealServer, work: Path) -> None:
    hub = server.bridge.hub
    async with server.client() as admin:
        session_id = await opened(admin, work)
    change = requests.SessionSetMode(session_id=session_id, mode="plan")
    for number, body in enumerate((encode(SentCommand(change, "prompt")), msgspec.json.encode(change))):
        command = InboxCommand(id=f"c{number}", session_id=session_id, at=0.0, body=body)
        assert await hub.journal.send_command(command)
        with pytest.raises(ScopeMissing, match="without asking"):
            await hub._wait_for_outcome(session_id, command.id)
    session = hub.owned_sessions[session_id].session
    assert session is not None
    mode = session.fold.setting("mode")
    assert mode is not None
    assert mode.current == "code"


# -- files


@pytest.mark.attempts("scopes")
async def test_view_reads_only_files_that_the_conversation_shows(server: RealServer, work: Path) -> None:
    (work / "other.txt").write_text("nobody spoke of it")
    async with server.client() as admin, server.client("prompt") as user, server.client("view") as viewer:
        session_id = await opened(admin, work)
        for prompt in ("read notes.txt", "read .env"):
            await admin.call("session.prompt", session_id=session_id, text=prompt)
            await settle(admin, session_id)
        read = {"session_id": session_id}
        assert (await viewer.call("files.read", **read, path="notes.txt"))["text"] == "notes\n"
        for path in ("other.txt", ".env", "none.txt"):
            await forbidden(viewer, "files.read", **read, path=path)
        assert (await user.call("files.read", **read, path="other.txt"))["text"]
        await forbidden(user, "files.read", **read, path=".env")
        attached = [{"type": "file", "path": ".env"}]
        await forbidden(user, "session.prompt", **read, text="hello", attachments=attached)
        assert (await admin.call("files.read", **read, path=".env"))["text"] == SECRET


# -- tokens


@pytest.mark.attempts("scopes")
async def test_a_token_that_is_made_again_with_less_scope_ends_the_old_socket(server: RealServer) -> None:
    tokens = server.bridge.tokens
    secret, _ = tokens.create("first", "admin", token_id="same")
    async with server.client(token=secret) as client:
        await client.call("token.list")
        again, _ = tokens.create("second", "view", token_id="same")
        assert (await client.call_refused("token.list"))["kind"] == "unauthorized"
    async with server.client(token=again) as client:
        await forbidden(client, "token.list")


# -- pairs of requests


class World:
    """A server whose sessions tempt: `plain` may be used by `prompt`, the others not."""

    def __init__(self, server: RealServer, work: Path) -> None:
        self.bridge = server.bridge
        self.work = work
        self.home = server.bridge.config.home
        self.ids: dict[str, str] = {}
        self.attack_count = 0
        self.permission_id = ""
        self.options: dict[str, str] = {}  # of that permission, by kind

    async def build(self) -> World:
        for name, fields in {
            "plain": {},
            "full": {"access": "full"},
            "unasked": {"mode": "plan"},
            "asking": {"access": "ask"},
            "closed": {"access": "full"},
        }.items():
            result = await self.send(
                requests.SessionOpen(agent="lax", cwd=str(self.work), **fields),  # type: ignore[arg-type]
                "admin",
            )
            self.ids[name] = result.session_id
            # Without a prompt, a title keeps it when it is closed.
            await self.send(requests.SessionRename(session_id=result.session_id, title=name), "admin")
        await self.send(requests.SessionClose(session_id=self.ids["closed"]), "admin")
        line = f"run cat {self.home}/secrets"
        await self.send(requests.SessionPrompt(session_id=self.ids["asking"], text=line), "admin")
        listing = self.bridge.broadcaster.listing
        async with asyncio.timeout(TIMEOUT_S):
            while not (pending := listing.pending()):
                await listing.wait_for_pending(listing.pending_number)
        assert pending[0].permission is not None
        self.permission_id = pending[0].permission.id
        self.options = {option.kind: option.option_id for option in pending[0].permission.options}
        return self

    async def send(self, request: Request[Any], scope: Scope) -> Any:
        caller = Caller(token_id=f"a {scope}", name=scope, scope=scope, digest="")
        async with asyncio.timeout(TIMEOUT_S):
            return await self.bridge.execute(request, caller)

    async def refusal(self, attack: Request[Any]) -> str | None:
        """The kind of the refusal of an attack; None where it succeeds."""
        self.attack_count += 1
        try:
            result = await self.send(attack, "prompt")
        except Refusal as refusal:
            return refusal.details.kind
        return "too late" if isinstance(result, AnswerResult) and not result.accepted else None

    def attacks(self) -> Iterator[Request[Any]]:
        """Requests that a client with the scope `prompt` may send, and none of which it may be granted."""
        work, home = str(self.work), str(self.home)
        yield requests.SessionOpen(agent="lax", cwd="/")
        yield requests.SessionOpen(agent="lax", cwd=home)
        yield requests.SessionOpen(agent="lax", cwd=work, additional=(home,))
        yield requests.SessionOpen(agent="lax", cwd=work, access="full")
        yield requests.SessionOpen(agent="lax", cwd=work, mode="plan")
        yield requests.SessionOpen(agent="lax", cwd=work, options={"mode": "plan"})
        yield requests.SessionOpen(agent="lax", cwd=work, network=True)
        yield requests.SessionOpen(agent="lax", cwd=work, checkpoints=False)
        yield requests.SessionOpen(agent="lax", cwd=work, worktree=WorktreeChoice(setup="touch planted"))
        yield requests.SessionOpen(agent="ws://127.0.0.1:1/", cwd=work)
        for name in ("full", "unasked"):
            session_id = self.ids[name]
            yield requests.SessionPrompt(session_id=session_id, text="run true")
            yield requests.QueueAdd(session_id=session_id, text="run true")
            yield requests.SessionFork(session_id=session_id)
        for name in ("full", "closed"):
            yield requests.SessionLoad(session_id=self.ids[name])
            yield requests.SessionRestart(session_id=self.ids[name])
            yield requests.SessionRestart(session_id=self.ids[name], reload=True)
        yield requests.SessionResume(session_id=self.ids["closed"])
        for name in ("plain", "full", "asking"):
            yield requests.SessionSetMode(session_id=self.ids[name], mode="plan")
            yield requests.SessionSetOption(session_id=self.ids[name], option_id="mode", value="plan")
        answer: dict[str, Any] = {"session_id": self.ids["asking"], "permission_id": self.permission_id}
        yield requests.PermissionAnswer(**answer, answer="allow")
        yield requests.PermissionAnswer(**answer, answer="allow", always=True)
        yield requests.PermissionAnswer(**answer, option_id=self.options["allow_once"])
        yield requests.PermissionAnswer(**answer, option_id=self.options["allow_always"])
        yield requests.PermissionAnswer(**answer, option_id=self.options["allow_once"], by="callback", remember=True)
        yield requests.FilesList(cwd="/")
        yield requests.FilesRead(session_id=self.ids["plain"], path=".env")
        attached = (requests.AttachedFile(path=".env"),)
        yield requests.SessionPrompt(session_id=self.ids["plain"], text="hello", attachments=attached)
        yield requests.SessionExport(session_id=self.ids["plain"], format="jsonl")
        yield requests.PolicyList(cwd="/etc")
        yield requests.SkillList(cwd="/etc")
        yield requests.SkillSet(cwd=work, name="notes", state="always")
        yield requests.SessionOpen(agent="lax", cwd=work, system_prompt="/approval-mode free")

    def openers(self) -> Iterator[Request[Any]]:
        """A request of each kind that a client with the scope `prompt` may send, and that may prepare an attack."""
        plain, work = self.ids["plain"], str(self.work)
        yield requests.SessionOpen(agent="lax", cwd=work, mode="ask")
        yield requests.SessionPrompt(session_id=plain, text="stream 2")
        yield requests.SessionCancel(session_id=self.ids["full"])
        yield requests.SessionFork(session_id=plain)
        yield requests.SessionLoad(session_id=plain)
        yield requests.SessionResume(session_id=self.ids["full"])
        yield requests.SessionRestart(session_id=plain)
        yield requests.SessionSetOption(session_id=plain, option_id="model", value="demo-large")
        yield requests.SessionSetMode(session_id=plain, mode="ask")
        yield requests.SessionRename(session_id=self.ids["full"], title="mine")
        yield requests.SessionExport(session_id=plain)
        yield requests.SessionList()
        yield requests.SessionHistory(session_id=plain, before=10**6)
        yield requests.SessionRow(session_id=self.ids["asking"], table="permissions", row_id=self.permission_id)
        yield requests.SessionChanges(session_id=plain)
        yield requests.SessionDiffs(session_id=plain, path=".env")
        yield requests.CheckpointList(session_id=plain)
        yield requests.CheckpointDiff(session_id=plain, since_start=True, path=".env")
        yield requests.GitReadState(session_id=plain)
        yield requests.WorktreeList()
        yield requests.WorktreeShow(worktree="work")
        yield requests.QueueAdd(session_id=plain, text="stream 1", command_id="queued")
        yield requests.QueueEdit(session_id=plain, queued_id="queued", text="stream 3")
        yield requests.QueueMove(session_id=plain, queued_id="queued", to=0)
        yield requests.QueueSend(session_id=plain, queued_id="queued")
        yield requests.QueueRemove(session_id=plain, queued_id="queued")
        yield requests.WorkspaceRecent()
        yield requests.QuestionAnswer(session_id=plain, question_id="question-1", action="accept")
        yield requests.PolicyList(cwd=work)
        yield requests.SkillList(session_id=plain)
        preview: dict[str, Any] = {"session_id": self.ids["asking"], "permission_id": self.permission_id}
        yield requests.PolicyPreview(**preview)
        yield requests.AgentList()
        yield requests.TerminalResize(session_id=plain, terminal_id="t", columns=80, rows=24)
        yield requests.TerminalKill(session_id=plain, terminal_id="t")
        yield requests.Search(text="secrets")
        yield requests.UsageQuery()
        yield requests.FilesList(session_id=plain)
        yield requests.FilesRead(session_id=plain, path="notes.txt")
        yield requests.TranscriptsList()
        yield requests.SettingsGet()
        yield requests.PermissionAnswer(**preview, answer="reject")
        yield requests.SessionClose(session_id=self.ids["full"])

    def guarded(self) -> dict[str, object]:
        """Everything that must stay as it is."""
        names = ("config.toml", "settings.json", "remembered.json", "trusted.json", "secrets")
        owned = self.bridge.hub.owned_sessions
        modes = {
            name: session.fold.setting("mode")
            for name in ("full", "unasked")
            if (entry := owned.get(self.ids[name])) is not None and (session := entry.session) is not None
        }
        runs = [
            run
            for name in ("full", "unasked")
            if (entry := owned.get(self.ids[name])) is not None and (session := entry.session) is not None
            for run in session.fold.runs
        ]
        return {
            "files": {name: _content(self.home / name) for name in names},
            "tokens": [(token.id, token.scope) for token in self.bridge.tokens.all()],
            "modes": {name: setting.current for name, setting in modes.items() if setting is not None},
            "runs": runs,
            "closed": self.ids["closed"] in owned and owned[self.ids["closed"]].session is not None,
        }


def _content(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.fixture
def with_checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAGOMAN_CHECKPOINTS", "on")


@pytest.mark.attempts("scopes")
async def test_no_request_prepares_an_attack_for_the_scope_prompt(
    with_checkpoints: None, server: RealServer, work: Path, attempts: Attempts
) -> None:
    world = await World(server, work).build()
    before = world.guarded()
    for attack in world.attacks():
        assert await world.refusal(attack) == "forbidden", attack
    tried: set[type[Request[Any]]] = set()
    for opener in world.openers():
        tried.add(type(opener))
        with contextlib.suppress(Refusal):
            result = await world.send(opener, "prompt")
            assert SECRET.encode() not in msgspec.json.encode(result), opener
        for attack in world.attacks():
            assert await world.refusal(attack) in ("forbidden", "conflict", "invalid", "too late"), (opener, attack)
        now = world.guarded()
        assert {**before, **now, "modes": {**before["modes"], **now["modes"]}} == before, opener  # type: ignore[dict-item]
    attempts.add(world.attack_count)
    declared = {request for request, declaration in REQUESTS.items() if includes("prompt", declaration.scope)}
    assert declared - tried == set(), (
        "a new request: add it to the openers, and what it may be abused for to the attacks"
    )
