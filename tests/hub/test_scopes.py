"""Each check of a scope by itself: what needs `admin`, and the nearest thing that does not.

`tests/bridge/test_scopes.py` has the same checks on a server, in every way and in pairs.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dragoman.config import Config, load, make_home
from dragoman.errors import ScopeMissing
from dragoman.host.permission import PermissionRequest
from dragoman.hub.commands import Command
from dragoman.hub.scopes import (
    acting_reason,
    check_attachment,
    check_command,
    folder_reason,
    opening_reason,
    reading_reason,
    session_reason,
)
from dragoman.journal.rows import Session as SessionRow
from dragoman.protocol import requests
from dragoman.protocol.requests import Isolation
from dragoman.record.events import PermissionRequested
from dragoman.session.options import SessionConfig
from dragoman.session.session import Session
from dragoman.session.spec import AgentSpec
from dragoman.testing.memory import session_of
from dragoman.testing.scripted import OPTIONS, Params, ScriptedAgent, Turn
from dragoman.workspace import Workspace


def select(option_id: str, current: str, *values: str, category: str | None = None) -> Params:
    choices = [{"value": value, "name": value} for value in values]
    category_field = {"category": category} if category else {}
    return {
        "id": option_id,
        "name": option_id,
        "type": "select",
        "currentValue": current,
        "options": choices,
        **category_field,
    }


# `trust` is an option that nobody has described; the agent begins with `low`.
SETTINGS = (
    select("permissions", "begin", "begin", "ask", "free", category="mode"),
    select("model", "small", "small", "large", category="model"),
    select("approval", "always", "always", "never"),
    select("trust", "low", "low", "high"),
)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    home = make_home(tmp_path / "home")
    (home / "config.toml").write_text(
        f"""
        folders = ["{tmp_path}/configured"]

        [agents.lax]
        command = "lax"
        asks_in = {{ mode = ["ask"], approval = ["always"] }}

        [[policy]]
        answer = "deny"
        kind = "read"
        path = "**/denied"

        [[policy]]
        answer = "ask"
        kind = "read"
        path = "**/asked"
        """
    )
    return load(home, {})


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


def opened(work: Path, **settings: Any) -> SessionConfig:
    return SessionConfig(workspace=Workspace(work, settings.pop("additional", ())), **settings)


# -- opening


def test_an_agent_at_an_address_is_chosen_by_an_admin(work: Path, config: Config) -> None:
    assert opening_reason("wss://elsewhere/", opened(work), config)
    assert opening_reason("lax", opened(work), config) is None
    configured = load(config.home, {"DRAGOMAN_AGENT": "wss://elsewhere/"})
    assert opening_reason("wss://elsewhere/", opened(work), configured) is None


def test_a_mode_or_option_in_which_the_agent_may_not_ask_is_chosen_by_an_admin(work: Path, config: Config) -> None:
    assert opening_reason("lax", opened(work, mode="free"), config)
    assert opening_reason("lax", opened(work, options={"approval": "never"}), config)
    assert opening_reason("lax", opened(work, mode="ask", options={"trust": "high"}), config)
    assert opening_reason("lax", opened(work, mode="ask", options={"approval": "always"}), config) is None


@pytest.mark.attempts("scopes")
@pytest.mark.parametrize("text", ["/approval-mode free", "!rm x", "\ufeff/yolo"])
def test_a_system_prompt_that_begins_with_a_command_is_for_an_admin(text: str, work: Path, config: Config) -> None:
    assert opening_reason("lax", opened(work, system_prompt=text), config)
    assert opening_reason("lax", opened(work, system_prompt=f"Never use {text}"), config) is None
    # Custom instructions have a heading of ours before them.
    assert opening_reason("lax", opened(work, custom_instructions=text), config) is None


def test_where_agents_are_isolated_only_an_admin_gives_them_more(work: Path, config: Config) -> None:
    configured = load(config.home, {"DRAGOMAN_ISOLATION": "on"})
    for isolation in (False, Isolation(environment=("*",)), Isolation(home=False)):
        assert opening_reason("lax", opened(work, isolation=isolation), configured)
        assert opening_reason("lax", opened(work, isolation=isolation), config) is None
    for allowed in (None, True, Isolation()):
        assert opening_reason("lax", opened(work, isolation=allowed), configured) is None


def test_more_access_than_configured_is_for_an_admin(work: Path, config: Config) -> None:
    assert opening_reason("lax", opened(work, access="edit-inside"), config)
    assert opening_reason("lax", opened(work, access="ask"), config) is None
    assert opening_reason("lax", opened(work, access="read-only"), config) is None


@pytest.mark.parametrize("name", ["network", "web_search"])
def test_the_network_is_for_an_admin(name: str, work: Path, config: Config) -> None:
    assert session_reason(opened(work, **{name: True}), [work], config)
    assert session_reason(opened(work, **{name: False}), [work], config) is None


def test_a_workspace_that_overlaps_the_home_folder_is_for_an_admin(work: Path, config: Config, tmp_path: Path) -> None:
    inside = config.home / "inside"
    inside.mkdir()
    for folder in (config.home, inside, tmp_path, Path("/"), Path(str(config.home).upper())):
        assert session_reason(opened(work), [work, folder], config), folder
    assert session_reason(opened(work), [work], config) is None


def test_the_home_folder_counts_by_its_real_place(work: Path, config: Config, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(config.home)
    assert session_reason(opened(work), [config.home.resolve()], load(link, {}))


# -- folders


def stored(folder: Path, **fields: Any) -> SessionRow:
    return SessionRow(**{"id": "s", "cwd": str(folder), "handle": '{"opened_by": "admin"}', **fields})


def test_a_folder_is_free_where_an_admin_has_opened_or_configured_it(
    work: Path, config: Config, tmp_path: Path
) -> None:
    (tmp_path / "configured").mkdir()
    below = work / "below"
    below.mkdir()
    assert folder_reason([tmp_path / "configured"], [], config) is None
    assert folder_reason([work, below], [stored(work)], config) is None
    assert folder_reason([work], [stored(tmp_path / "x", folders=(str(work),))], config) is None
    assert folder_reason([tmp_path], [stored(work)], config)
    assert folder_reason([work, tmp_path], [stored(work)], config)
    assert folder_reason(["\0"], [stored(work)], config)


@pytest.mark.parametrize(
    "fields",
    [
        {"imported": True},
        {"parent": "another"},
        {"handle": None},
        {"handle": '{"opened_by": "prompt"}'},
        {"handle": "damaged"},
    ],
    ids=str,
)
def test_a_session_that_no_admin_opened_frees_no_folder(fields: dict[str, Any], work: Path, config: Config) -> None:
    assert folder_reason([work], [stored(work, **fields)], config)


def test_a_link_counts_by_the_folder_that_it_leads_to(work: Path, config: Config, tmp_path: Path) -> None:
    (work / "out").symlink_to(tmp_path)
    assert folder_reason([work / "out"], [stored(work)], config)


@pytest.mark.parametrize("name", [".git", ".secrets"])  # before a write, and before a read
def test_a_folder_whose_files_are_always_asked_about_is_for_an_admin(name: str, work: Path, config: Config) -> None:
    guarded = work / name / "below"
    guarded.mkdir(parents=True)
    assert folder_reason([guarded], [stored(work)], config)
    assert folder_reason([guarded], [stored(work), stored(guarded)], config) is None


# -- acting


@asynccontextmanager
async def lax_session(
    work: Path, script: Any = None, settings: Sequence[Params] = SETTINGS, **options: Any
) -> AsyncIterator[Session]:
    agent = ScriptedAgent(
        *([script] if script else []),
        session={"configOptions": list(settings)},
        answers={"session/set_config_option": set_option},
    )
    spec = AgentSpec(command=["memory"], preset="lax")
    async with session_of(agent, runtime={"spec": spec}, workspace=Workspace(work), **options) as session:
        yield session


async def set_option(request: Any) -> Params:
    changed = {request.params["configId"]: request.params["value"]}
    return {
        "configOptions": [{**each, "currentValue": changed.get(each["id"], each["currentValue"])} for each in SETTINGS]
    }


def is_refused(session: Session, command: Command, config: Config) -> bool:
    """Return whether the scope `prompt` is too low. That of an admin never is."""
    check_command(session, command, "admin", config.home)
    try:
        check_command(session, command, "prompt", config.home)
    except ScopeMissing:
        return True
    return False


ACTING: dict[str, dict[str, Any]] = {
    "prompt": {"type": requests.SessionPrompt, "text": "hello"},
    "edit": {"type": requests.QueueEdit, "queued_id": "q", "text": "hello"},
    "answer": {"type": requests.QuestionAnswer, "question_id": "q", "action": "accept"},
}


@pytest.mark.parametrize("name", ACTING)
async def test_the_agent_acts_for_prompt_only_where_it_asks(name: str, work: Path, config: Config) -> None:
    fields = dict(ACTING[name])
    request: Any = fields.pop("type")
    async with lax_session(work) as session:
        command = request(session_id=session.id, **fields)
        assert not is_refused(session, command, config)
        await session.set_option("permissions", "ask")
        assert not is_refused(session, command, config)
        await session.set_option("permissions", "free")
        assert is_refused(session, command, config)
    async with lax_session(work, access="full") as session:
        assert is_refused(session, request(session_id=session.id, **fields), config)


@pytest.mark.parametrize(("option_id", "value"), [("approval", "never"), ("trust", "high")])
async def test_an_option_in_which_the_agent_may_not_ask_is_a_reason(
    option_id: str, value: str, work: Path, config: Config
) -> None:
    async with lax_session(work) as session:
        assert acting_reason(session, config) is None
        await session.set_option("model", "large")
        assert acting_reason(session, config) is None
        await session.set_option(option_id, value)
        assert acting_reason(session, config)


@pytest.mark.parametrize(("option_id", "has_reason"), [("permissions", True), ("trust", False)])
async def test_of_what_an_agent_offers_later_only_its_mode_counts(
    option_id: str, has_reason: bool, work: Path, config: Config
) -> None:
    later = [each for each in SETTINGS if each["id"] == option_id]

    async def script(turn: Turn) -> None:
        await turn.update("config_option_update", configOptions=later)
        await turn.say("done")

    spec = AgentSpec(command=["memory"])  # without a preset that says in which modes it asks
    async with session_of(ScriptedAgent(script), runtime={"spec": spec}, workspace=Workspace(work)) as session:
        await session.run("go")
        assert option_id in session.fold.settings
        assert (acting_reason(session, config) is not None) == has_reason


async def test_a_refused_question_needs_no_admin(work: Path, config: Config) -> None:
    async with lax_session(work, access="full") as session:
        for command in (
            requests.QuestionAnswer(session_id=session.id, question_id="q", action="decline"),
            requests.SessionCancel(session_id=session.id),
            requests.QueueRemove(session_id=session.id, queued_id="q"),
        ):
            assert not is_refused(session, command, config)


@pytest.mark.parametrize(
    ("text", "refused"),
    [
        ("!rm x", True),
        (" \n!rm x", True),
        ("\ufeff !rm x", True),  # JavaScript takes the first character for a space
        ("\u00a0\ufeff/allow-all", True),
        ("rm x!", False),
        ("/allow-all", True),
        (" /Approval_Mode free", True),
        ("/mcp", True),
        ("/review allow", False),
        ("/etc/config is wrong", False),
        ("see /config", False),
    ],
)
async def test_a_text_that_the_agent_carries_out_itself_is_for_an_admin(
    text: str, refused: bool, work: Path, config: Config
) -> None:
    async with lax_session(work) as session:
        assert is_refused(session, requests.SessionPrompt(session_id=session.id, text=text), config) == refused
        edit = requests.QueueEdit(session_id=session.id, queued_id="q", text=text)
        assert is_refused(session, edit, config) == refused


@pytest.mark.parametrize(
    ("option_id", "value", "refused"),
    [
        ("permissions", "ask", False),
        ("permissions", "begin", False),
        ("permissions", "free", True),
        ("approval", "always", False),
        ("approval", "never", True),
        ("trust", "low", False),
        ("trust", "high", True),
        ("model", "large", False),
        ("trust", "no such value", False),  # it is refused for that
        ("no such option", "x", False),
    ],
)
async def test_a_setting_with_which_the_agent_may_not_ask_is_set_by_an_admin(
    option_id: str, value: str, refused: bool, work: Path, config: Config
) -> None:
    async with lax_session(work) as session:
        command = requests.SessionSetOption(session_id=session.id, option_id=option_id, value=value)
        assert is_refused(session, command, config) == refused
        if option_id == "permissions":
            assert is_refused(session, requests.SessionSetMode(session_id=session.id, mode=value), config) == refused


# -- answers


ALWAYS: Params = {"optionId": "for ever", "name": "Always", "kind": "allow_always"}
NEVER: Params = {"optionId": "never", "name": "Never", "kind": "reject_always"}


@pytest.mark.parametrize(
    ("answer", "refused"),
    [
        ({"option_id": "allow"}, False),
        ({"option_id": "reject"}, False),
        ({"answer": "cancel"}, False),
        ({"option_id": "allow", "always": True}, True),
        ({"option_id": "for ever"}, True),
        ({"option_id": "for ever", "remember": False}, True),
        ({"option_id": "never", "remember": False}, False),
        ({"answer": "reject", "always": True}, True),
    ],
    ids=str,
)
async def test_an_answer_for_more_than_one_request_is_given_by_an_admin(
    answer: dict[str, Any], refused: bool, work: Path, config: Config
) -> None:
    fields = {"kind": "edit", "locations": [{"path": str(work / "a")}]}
    assert await is_answer_refused(work, config, answer, [*OPTIONS, ALWAYS, NEVER], fields) == refused


async def test_an_option_that_may_allow_or_reject_is_chosen_by_an_admin(work: Path, config: Config) -> None:
    options = [*OPTIONS, {**ALWAYS, "optionId": "reject"}]
    fields = {"kind": "edit", "locations": [{"path": str(work / "a")}]}
    assert await is_answer_refused(work, config, {"option_id": "reject", "remember": False}, options, fields)


async def test_what_always_needs_approval_is_allowed_by_an_admin(work: Path, config: Config) -> None:
    outside = {"kind": "edit", "locations": [{"path": str(config.home / "tokens.json")}]}
    assert await is_answer_refused(work, config, {"option_id": "allow"}, OPTIONS, outside)
    assert not await is_answer_refused(work, config, {"option_id": "reject"}, OPTIONS, outside)


async def is_answer_refused(
    work: Path, config: Config, answer: dict[str, Any], options: Sequence[Params], fields: Params
) -> bool:
    """Have the agent ask, and return whether `prompt` may not answer so."""

    async def script(turn: Turn) -> None:
        await turn.ask_permission(options=options, **fields)

    permission_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def on_event(event: object) -> None:
        if isinstance(event, PermissionRequested):
            permission_id.set_result(event.permission_id)

    async def on_permission(request: PermissionRequest) -> None:
        waits.set()
        await asyncio.Future[None]()  # until it is cancelled

    waits = asyncio.Event()
    async with lax_session(work, script, on_event=on_event, on_permission=on_permission) as session:
        run = session.run("go")
        run.drain()
        await waits.wait()
        command = requests.PermissionAnswer(session_id=session.id, permission_id=await permission_id, **answer)
        refused = is_refused(session, command, config)
        await run.cancel()
        assert not is_refused(session, command, config)  # it has its answer, and this one changes nothing
        return refused


# -- reading


@pytest.mark.parametrize(("name", "refused"), [("notes", False), ("denied", True), ("asked", True), (".env", True)])
async def test_a_file_that_a_rule_or_a_guard_keeps_is_read_and_attached_by_an_admin(
    name: str, refused: bool, work: Path, config: Config
) -> None:
    (work / name).write_text("text")
    workspace = Workspace(work)
    assert (reading_reason(work / name, workspace, config) is not None) == refused
    check_attachment(work / name, workspace=workspace, scope="admin", home=config.home)
    if refused:
        with pytest.raises(ScopeMissing):
            check_attachment(work / name, workspace=workspace, scope="prompt", home=config.home)
    else:
        check_attachment(work / name, workspace=workspace, scope="prompt", home=config.home)
    async with lax_session(work) as session:
        attachments = (requests.AttachedFile(path="other"), requests.AttachedFile(path=name))
        prompt = requests.SessionPrompt(session_id=session.id, text="hello", attachments=attachments)
        assert is_refused(session, prompt, config) == refused
        outside = (requests.AttachedFile(path="../x"),)  # it is refused for that
        assert not is_refused(
            session, requests.SessionPrompt(session_id=session.id, text="hello", attachments=outside), config
        )
