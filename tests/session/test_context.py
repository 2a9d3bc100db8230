"""The context of a prompt: what goes to the agent beside the user's words, and what the record shows of it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.host.policy.rules import PolicyRule
from dragoman.journal.sqlite import MemoryJournal
from dragoman.record import events, notes
from dragoman.record.notes import INSTRUCTIONS_HEADING
from dragoman.record.rows import OmittedSkill, PromptContext, SentSkill
from dragoman.session.capabilities import Capabilities
from dragoman.session.context import (
    FULL_HEADING,
    INDEX_HEADING,
    ContextSource,
    PreparedPrompt,
    SessionContext,
)
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec
from dragoman.settings import change_settings, with_setting, with_skill_state
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire import vocabulary as acp
from dragoman.wire.messages import Notification
from dragoman.workspace import Workspace

PLAIN = Capabilities(protocol_version=1)
EMBEDS = Capabilities(protocol_version=1, embedded_context=True)


class World:
    """A workspace, a user's home folder and Dragoman's own, each empty."""

    def __init__(self, folder: Path) -> None:
        self.work, self.user_home, self.home = folder / "work", folder / "user", folder / "dragoman"
        for each in (self.work, self.user_home, self.home):
            each.mkdir()
        self.source = ContextSource(self.home, user_home=self.user_home)

    def write(self, name: str, text: str) -> Path:
        path = self.work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def skill(self, name: str, description: str = "does it", more: str = "", body: str = "Do it.") -> Path:
        text = f"---\nname: {name}\ndescription: {description}\n{more}---\n{body}\n"
        return self.write(f"skills/{name}/SKILL.md", text)

    def set(self, **settings: str) -> None:
        for name, value in settings.items():
            change_settings(self.home, partial(with_setting, name=name, value=value))

    def rules(self, **paths: list[str]) -> None:
        """Set rules of the user, each by its answer and the paths that it is about."""
        tables = [f'[[policy]]\nanswer = "{answer}"\npath = {paths[answer]}\n' for answer in paths]
        (self.home / "config.toml").write_text("\n".join(tables))

    def context(self, **options: Any) -> SessionContext:
        return SessionContext(self.source, Workspace(self.work), **options)

    def prepare(self, text: str = "hello", capabilities: Capabilities = EMBEDS, **options: Any) -> PreparedPrompt:
        run = {name: options.pop(name) for name in ("agent_commands", "run_skills") if name in options}
        return self.context(**options).prepare((acp.TextContent(text=text),), capabilities, **run)

    @asynccontextmanager
    async def session(self, agent: ScriptedAgent, **settings: Any) -> AsyncIterator[Session]:
        runtime = {"context": self.source, **settings.pop("runtime", {})}
        async with session_of(agent, runtime=runtime, workspace=Workspace(self.work), **settings) as session:
            yield session


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def shown(prepared: PreparedPrompt) -> list[Any]:
    """Return the blocks as they are on the wire: texts, and resources as their addresses and texts."""
    blocks = msgspec.json.decode(msgspec.json.encode(prepared.blocks))
    return [
        block["text"] if block["type"] == "text" else (block["resource"]["uri"], block["resource"]["text"])
        for block in blocks
    ]


# -- the index


def test_without_skills_and_settings_a_prompt_is_what_the_user_wrote(world: World) -> None:
    prepared = world.prepare()
    assert (shown(prepared), prepared.context) == (["hello"], None)


def test_each_prompt_names_the_folders_and_carries_the_index_after_the_users_words(world: World) -> None:
    world.skill("review", "Reviews code")
    world.write("skills/style.md", "# House style")
    (world.user_home / ".agents/skills").mkdir(parents=True)
    (world.user_home / ".agents/skills/letters.md").write_text("How to write letters")
    prepared = world.prepare()
    words, (address, text) = shown(prepared)
    assert (words, address) == ("hello", "attachment:skills")
    assert text == "\n".join(
        [
            INDEX_HEADING,
            f"\nIn {world.user_home}/.agents/skills:",
            "- letters.md: How to write letters",
            f"\nIn {world.work}/skills:",
            "- style.md: House style",
            "- review/SKILL.md: Reviews code",
        ]
    )
    folders = (f"{world.user_home}/.agents/skills", f"{world.work}/skills")
    assert prepared.context == PromptContext(folders=folders, listed=3, workspace_skills=("style", "review"))


def test_an_agent_without_embedded_resources_gets_text(world: World) -> None:
    path = world.skill("review", more="always: true\n", body="```\nfenced\n```")
    words, index, full = shown(world.prepare(capabilities=PLAIN))
    assert words == "hello"
    assert index.startswith("Skills:\n```\n" + INDEX_HEADING)
    assert full == f"{path}:\n````\n{path.read_text()}\n````"


def test_a_name_that_the_path_does_not_tell_is_in_the_index(world: World) -> None:
    world.write("skills/folder/SKILL.md", "---\nname: other\ndescription: does it\n---\n")
    world.write("skills/bare.md", "\n")
    assert shown(world.prepare())[1][1].splitlines()[-2:] == ["- bare.md", "- folder/SKILL.md: other: does it"]


def test_a_skill_that_is_off_or_cannot_be_used_is_not_in_the_index(world: World) -> None:
    path = world.skill("quiet")
    world.write("skills/broken/SKILL.md", "no front matter")
    context = world.prepare().context
    assert context is not None
    assert (context.listed, context.workspace_skills, context.omitted) == (1, ("quiet",), ())
    change_settings(world.home, lambda page: with_skill_state(page, str(path), "off"))
    assert shown(world.prepare()) == ["hello"]
    assert world.prepare().context is None
    [(sent, state)] = [(item.skill.name, item.state) for item in world.source.read(Workspace(world.work)).skills][-1:]
    assert (sent, state) == ("quiet", "off")


# -- skills in full


def test_always_active_skills_go_in_full_by_front_matter_and_by_setting(world: World) -> None:
    always = world.skill("always", more="always: true\n", body="ALWAYS")
    chosen = world.skill("chosen", body="CHOSEN")
    world.skill("other", body="OTHER")
    change_settings(world.home, lambda page: with_skill_state(page, str(chosen), "always"))
    prepared = world.prepare()
    _, (_, index), *full = shown(prepared)
    assert full == [(always.as_uri(), always.read_text()), (chosen.as_uri(), chosen.read_text())]
    assert index.endswith(f"\n\n{FULL_HEADING}\n- always: {always}\n- chosen: {chosen}")
    assert "OTHER" not in str(shown(prepared))
    assert prepared.context is not None
    assert prepared.context.listed == 3
    sizes = [SentSkill(path.parent.name, str(path), path.stat().st_size) for path in (always, chosen)]
    assert list(prepared.context.skills) == sizes
    # The setting is stronger than the front matter.
    change_settings(world.home, lambda page: with_skill_state(page, str(always), "listed"))
    context = world.prepare().context
    assert context is not None
    assert [skill.name for skill in context.skills] == ["chosen"]


def test_a_skill_of_the_same_name_elsewhere_does_not_inherit_the_state(world: World, tmp_path: Path) -> None:
    path = world.skill("review")
    change_settings(world.home, lambda page: with_skill_state(page, str(path), "always"))
    other = tmp_path / "other"
    (other / "skills/review").mkdir(parents=True)
    (other / "skills/review/SKILL.md").write_text(path.read_text())
    prepared = SessionContext(world.source, Workspace(other)).prepare((acp.TextContent(text="x"),), EMBEDS)
    assert prepared.context is not None
    assert (prepared.context.listed, prepared.context.skills) == (1, ())


def test_a_skill_that_was_to_go_with_every_prompt_and_can_no_longer_be_used_is_named_with_the_reason(
    world: World,
) -> None:
    broken, denied = world.skill("broken"), world.write("skills/denied.md", "text")
    for path in (broken, denied):
        change_settings(world.home, partial(with_skill_state, path=str(path), state="always"))
    broken.write_text("---\nname: broken\n")
    world.rules(deny=["skills/denied.md"])
    context = world.prepare().context
    assert context is not None
    reasons = {skill.name: skill.reason for skill in context.omitted}
    assert reasons.keys() == {"broken", "denied.md"}
    assert "the front matter has no end" in reasons["broken"]
    assert "it may not be read: " in reasons["denied.md"]


def test_skills_of_the_session_and_of_the_run_go_in_full_once_each(world: World) -> None:
    for name in ("one", "two", "three"):
        world.skill(name)
    context = world.prepare(skills=("one", "two"), run_skills=("three", "one")).context
    assert context is not None
    assert [skill.name for skill in context.skills] == ["three", "one", "two"]
    assert context.listed == 3


def test_an_empty_list_sends_no_skills_but_those_of_the_run(world: World) -> None:
    world.skill("one", more="always: true\n")
    assert shown(world.prepare(skills=())) == ["hello"]
    prepared = world.prepare(skills=(), run_skills=("one",))
    assert prepared.context is not None
    assert (prepared.context.listed, prepared.context.folders) == (0, ())
    assert [skill.name for skill in prepared.context.skills] == ["one"]
    assert INDEX_HEADING not in shown(prepared)[1][1]


def test_an_unknown_skill_is_an_error_at_once_and_later_a_reason_in_the_record(world: World) -> None:
    path = world.skill("review")
    world.write("skills/broken/SKILL.md", "no front matter")
    with pytest.raises(InputError, match="there is no skill 'revie'; did you mean 'review'"):
        world.context(skills=("revie",)).check()
    with pytest.raises(InputError, match=r"the skill 'broken' cannot be used: it has no description"):
        world.prepare(run_skills=("broken",))
    context = world.context(skills=("review",))
    context.check()
    path.unlink()
    prepared = context.prepare((acp.TextContent(text="hello"),), EMBEDS)
    assert prepared.context is not None
    assert prepared.context.omitted == (OmittedSkill("review", "there is no skill 'review'"),)
    assert shown(prepared) == ["hello"]


@pytest.mark.parametrize("budget", [2000, 4096, 8192])
def test_all_of_it_stays_within_the_budget_and_what_does_not_fit_is_named(budget: int, world: World) -> None:
    for number in range(40):
        world.skill(f"skill-{number:02}", "d" * 200, body="x" * 500)
    world.skill("large", more="always: true\n", body="x" * (budget * 7 // 10))  # too large beside the index
    world.skill("small", more="always: true\n", body="y" * 100)
    world.set(skills_budget=str(budget))
    prepared = world.prepare()
    assert prepared.context is not None
    texts = [text for _, text in shown(prepared)[1:]]
    assert sum(len(text.encode()) for text in texts) <= budget
    assert 0 < prepared.context.listed < 42
    assert f"{42 - prepared.context.listed} more could not be listed here" in texts[0]
    assert [skill.name for skill in prepared.context.skills] == ["small"]
    [omitted] = prepared.context.omitted
    assert omitted.name == "large"
    assert "do not fit" in omitted.reason


@pytest.mark.attempts("planted repositories")
async def test_a_planted_script_is_never_run(world: World) -> None:
    proof = world.work / "proof"
    script = world.write("skills/setup.sh", f"#!/bin/sh\n# Sets everything up\ntouch {proof}\n")
    in_skill = world.skill("review", more="always: true\n").parent / "scripts/run.sh"
    in_skill.parent.mkdir()
    in_skill.write_text(f"#!/bin/sh\ntouch {proof}\n")
    for path in (script, in_skill):
        path.chmod(0o755)
    change_settings(world.home, lambda page: with_skill_state(page, str(script), "always"))
    async with world.session(ScriptedAgent(), skills=("setup.sh",)) as session:
        await session.run("go", skills=["setup.sh", "review"])
        await session.run("/setup.sh")
        session.available_context()
    assert not proof.exists()


# -- custom instructions


def test_custom_instructions_are_off_by_default_and_go_before_each_prompt(world: World) -> None:
    assert shown(world.prepare()) == ["hello"]
    world.set(custom_instructions="Be brief.")
    prepared = world.prepare()
    assert shown(prepared) == [f"{INSTRUCTIONS_HEADING}\n\nBe brief.", "hello"]
    assert prepared.context == PromptContext(has_custom_instructions=True)
    assert shown(world.prepare(custom_instructions="")) == ["hello"]
    assert shown(world.prepare(custom_instructions="Own."))[0].endswith("\n\nOwn.")


# -- commands and templates


@pytest.mark.parametrize("text", ["/compact", " /review now", "!ls", "\ufeff/compact"])
def test_a_command_of_the_agent_is_sent_as_it_is(text: str, world: World) -> None:
    world.skill("review", more="always: true\n")
    world.set(custom_instructions="Be brief.")
    prepared = world.prepare(text)
    assert (shown(prepared), prepared.context) == ([text], None)


def test_a_path_at_the_beginning_is_no_command(world: World) -> None:
    world.skill("review")
    assert len(shown(world.prepare("/etc/hosts is wrong"))) == 2


def test_a_template_is_sent_in_place_of_its_call_with_everything_else(world: World) -> None:
    path = world.write("prompts/fix.md", "Fix $1.")
    world.skill("review")
    prepared = world.prepare("/fix the-bug", agent_commands=["compact"])
    assert shown(prepared)[0] == "Fix the-bug."
    folders = (f"{world.work}/skills",)
    assert prepared.context == PromptContext(
        folders=folders, listed=1, workspace_skills=("review",), template=str(path)
    )
    assert shown(world.prepare("/fix the-bug", agent_commands=["fix"])) == ["/fix the-bug"]


def test_only_the_first_text_calls_a_template_and_other_blocks_stay(world: World) -> None:
    world.write("prompts/fix.md", "Fix it.")
    link = acp.ResourceLink(uri="file:///x", name="x")
    blocks = (link, acp.TextContent(text="/fix"), acp.TextContent(text="/fix"))
    prepared = world.context().prepare(blocks, EMBEDS)
    assert prepared.blocks == (link, acp.TextContent(text="Fix it."), acp.TextContent(text="/fix"))


# -- without a source


def test_without_a_source_only_what_is_named_goes_with_a_prompt(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(world.user_home))
    monkeypatch.setenv("DRAGOMAN_HOME", str(world.home))
    world.skill("one", more="always: true\n")
    world.skill("two")
    world.write("prompts/fix.md", "Fix it.")
    world.set(custom_instructions="Be brief.")
    hello = (acp.TextContent(text="hello"),)
    workspace = Workspace(world.work)
    assert SessionContext(None, workspace).prepare(hello, EMBEDS) == PreparedPrompt(hello)
    named = SessionContext(None, workspace, ("two",), "Own.").prepare(hello, EMBEDS)
    assert named.context is not None
    assert ([skill.name for skill in named.context.skills], named.context.listed) == (["two"], 0)
    assert shown(named)[0].endswith("Own.")
    call = (acp.TextContent(text="/fix"),)
    assert SessionContext(None, workspace, ("two",)).prepare(call, EMBEDS).blocks == call


# -- rules


def test_what_a_rule_keeps_from_being_read_goes_with_no_prompt(world: World) -> None:
    world.skill("denied", "SECRET", more="always: true\n", body="SECRET")
    world.skill("asked", "SECRET")
    world.skill("free", "Free")
    (world.user_home / "skills").mkdir()
    (world.user_home / "skills/private.md").write_text("SECRET")
    world.write("prompts/hush.md", "SECRET")
    world.rules(deny=["**/denied/**", f"{world.user_home}/skills/*", "prompts/hush.md"], ask=["**/asked/**"])
    prepared = world.prepare()
    assert prepared.context is not None
    assert prepared.context.workspace_skills == ("free",)
    assert (prepared.context.listed, prepared.context.skills) == (1, ())
    assert shown(world.prepare("/hush")) == ["/hush"]
    assert "SECRET" not in str(shown(prepared))
    for name in ("denied", "asked", "private"):
        with pytest.raises(InputError, match=r"cannot be used: .*it may not be read"):
            world.prepare(run_skills=(name,))


def test_a_guard_keeps_files_of_the_workspace_out_and_none_of_the_users_own(world: World) -> None:
    world.write("skills/customers.md", "theirs")
    (world.user_home / "skills").mkdir()
    (world.user_home / "skills/customers-of-mine.md").write_text("mine")
    (world.home / "config.toml").write_text('[guards]\nread = ["customers*"]\n')
    prepared = world.prepare()
    assert "mine" in str(shown(prepared))
    assert "theirs" not in str(shown(prepared))


def test_without_rules_that_can_be_read_nothing_of_the_workspace_goes_with_a_prompt(world: World) -> None:
    world.skill("review")
    (world.home / "trusted.json").write_text("{")
    world.write(".dragoman/policy.toml", "")
    prepared = world.prepare()
    assert (shown(prepared), prepared.context) == (["hello"], None)
    with pytest.raises(InputError, match="the rules cannot be read"):
        world.prepare(run_skills=("review",))


async def test_rules_of_the_session_and_of_the_run_count_too(world: World) -> None:
    for name in ("one", "two", "three"):
        world.skill(name)
    rules = [PolicyRule("deny", path="skills/one/**")]
    async with world.session(ScriptedAgent(), rules=rules, access="read-only") as session:
        await session.run("a", rules=[PolicyRule("deny", path="skills/two/**")])
        await session.run("b")
        contexts = [run.context for run in session.fold.runs.values()]
    assert [context and context.workspace_skills for context in contexts] == [("three",), ("three", "two")]


# -- in a session


async def test_the_record_shows_the_users_own_words_and_what_went_with_them(world: World) -> None:
    path = world.skill("review", body="REVIEW")
    template = world.write("prompts/fix.md", "Fix $1.")
    world.set(custom_instructions="Be brief.")
    agent = ScriptedAgent(capabilities={"promptCapabilities": {"embeddedContext": True}})
    async with world.session(agent, system_prompt="You are kind.") as session:
        first = [event async for event in session.run("/fix it", skills=["review"])]
        await session.run("and now")
        prompts = [request.params["prompt"] for request in agent.all_heard("session/prompt")]
        runs = list(session.fold.runs.values())
        assert [message.text for message in session.fold.messages if message.kind == "user"] == ["/fix it", "and now"]
        assert not any(message.blocks for message in session.fold.messages)
    texts = [[block.get("text") for block in prompt if block["type"] == "text"] for prompt in prompts]
    instructions = f"{INSTRUCTIONS_HEADING}\n\nBe brief."
    assert texts == [["You are kind.", instructions, "Fix it."], [instructions, "and now"]]
    # Everyone can tell the user's own blocks from those that were added.
    own = [
        [block["text"] for block in prompt if "dragoman.context" not in block.get("_meta", {})] for prompt in prompts
    ]
    assert own == [["You are kind.", "Fix it."], ["and now"]]
    assert "REVIEW" in str(prompts[0])
    assert "REVIEW" not in str(prompts[1])
    started = first[0]
    assert isinstance(started, events.RunStarted)
    assert started.context == runs[0].context
    assert runs[0].context == PromptContext(
        folders=(f"{world.work}/skills",),
        listed=1,
        workspace_skills=("review",),
        skills=(SentSkill("review", str(path), path.stat().st_size),),
        template=str(template),
        has_custom_instructions=True,
    )
    assert runs[1].context == PromptContext(
        folders=(f"{world.work}/skills",), listed=1, workspace_skills=("review",), has_custom_instructions=True
    )
    assert msgspec.json.decode(events.to_json(started))["context"]["skills"][0]["name"] == "review"


async def test_an_agent_that_shows_its_model_only_paths_of_resources_gets_text(world: World) -> None:
    world.skill("review", more="always: true\n", body="REVIEW")
    agent = ScriptedAgent(capabilities={"promptCapabilities": {"embeddedContext": True}})
    spec = AgentSpec(command=["memory"], embeds_by_path=True)
    async with world.session(agent, runtime={"spec": spec}) as session:
        await session.run("hello")
    [prompt] = [request.params["prompt"] for request in agent.all_heard("session/prompt")]
    assert [block["type"] for block in prompt] == ["text", "text", "text"]
    assert "REVIEW" in prompt[2]["text"]


async def test_a_skill_that_appears_counts_from_the_next_prompt_on_also_for_a_queued_one(world: World) -> None:
    async def script(turn: Turn) -> None:
        world.skill("review")
        await turn.say("done")

    agent = ScriptedAgent(script)
    async with world.session(agent) as session:
        first, queued = session.run("one"), session.run("two")
        await first
        await queued
        assert [run.context is not None for run in session.fold.runs.values()] == [False, True]


async def test_an_unknown_skill_fails_the_run_and_nothing_is_sent(world: World) -> None:
    agent = ScriptedAgent()
    async with world.session(agent) as session:
        with pytest.raises(InputError, match="there is no skill 'x'"):
            session.run("go", skills=["x"])
        with pytest.raises(InputError, match="skills is 'x'; expected a list of names"):
            session.run("go", skills="x")
        assert not agent.all_heard("session/prompt")
        assert (await session.run("go")).status == "success"


async def test_a_session_with_an_unknown_skill_is_not_opened(world: World) -> None:
    agent = ScriptedAgent()
    with pytest.raises(InputError, match="there is no skill 'x'"):
        async with world.session(agent, skills=("x",)):
            pass
    assert not agent.all_heard("session/new")


async def test_a_handle_keeps_the_skills_and_instructions_of_its_session(world: World) -> None:
    world.skill("review")
    async with world.session(ScriptedAgent(), skills=("review",), custom_instructions="Own.") as session:
        handle = session.snapshot()
        assert (handle.skills, handle.custom_instructions) == (("review",), "Own.")
    async with world.session(ScriptedAgent()) as session:
        assert (session.snapshot().skills, session.snapshot().custom_instructions) == (None, None)


# -- in the journal


def test_a_note_without_context_is_read_and_written_as_before() -> None:
    line = b'{"method":"_dragoman/prompt","params":{"run_id":"r","prompt":[]},"jsonrpc":"2.0"}'
    note = notes.Prompt("r", ())
    assert notes.write(note).line == line
    params = msgspec.Raw(b'{"run_id":"r","prompt":[]}')
    assert notes.read(Notification("_dragoman/prompt", params, line)) == note


async def test_the_journal_has_the_context_in_the_runs_row_and_rebuilds_it(world: World) -> None:
    from hub.journaled import journal_client_of

    world.skill("review", more="always: true\n")
    async with MemoryJournal() as journal:
        client = await journal_client_of(journal)
        async with world.session(ScriptedAgent(), runtime={"journal_client": client}) as session:
            await session.run("hello")
            expected = next(iter(session.fold.runs.values())).context
        [run] = (await journal.rows(session.id)).runs
        assert expected is not None
        assert [skill.name for skill in expected.skills] == ["review"]
        assert run.context == expected
        [message] = [row for row in (await journal.rows(session.id)).messages if row.kind == "user"]
        assert (message.text, message.blocks) == ("hello", ())
