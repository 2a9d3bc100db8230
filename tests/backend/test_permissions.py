"""Permission requests: an answer reaches the very request it was given for, once; any other gains nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from dragoman.backend import BackendAdapter, BackendSession, UnifiedMessage, permission_response, user_message
from dragoman.errors import RequestFailed
from dragoman.host.refusals import DENIED
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec
from dragoman.testing.memory import in_memory
from dragoman.testing.scripted import ScriptedAgent, Turn
from dragoman.wire.messages import Message, Noise
from dragoman.workspace import Workspace

from .conftest import connected, scripted, text_of, until

ONCE = {"optionId": "once", "name": "Once", "kind": "allow_once"}
ALWAYS = {"optionId": "always", "name": "Always", "kind": "allow_always"}
NO = {"optionId": "no", "name": "No", "kind": "reject_once"}
NEVER = {"optionId": "never", "name": "Never", "kind": "reject_always"}


async def ask_with_all_options(turn: Turn) -> None:
    await turn.say(str(await turn.ask_permission(options=[NEVER, ALWAYS, NO, ONCE])))


async def permission_request_of(session: BackendSession) -> UnifiedMessage:
    await session.send(user_message("go"))
    return (await until(session, "permission_request"))[-1]


async def error_text(session: BackendSession, answer: UnifiedMessage) -> str:
    """Send an answer that gains nothing, and return the error's text."""
    await session.send(answer)
    error = (await until(session, "error"))[-1]
    assert error.metadata["in_reply_to"] == answer.id
    return str(error.metadata["message"])


async def test_to_allow_selects_the_option_that_allows_once(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        await session.send(permission_response(await permission_request_of(session), "allow"))
        assert text_of(await until(session, "result")) == "once"


async def test_to_deny_selects_the_option_that_rejects_once(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        await session.send(permission_response(await permission_request_of(session), "deny"))
        assert text_of(await until(session, "result")) == "no"


async def test_an_option_can_be_chosen_by_its_id(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        await session.send(permission_response(await permission_request_of(session), "deny", option_id="never"))
        assert text_of(await until(session, "result")) == "never"


async def test_an_answer_that_contradicts_itself_leaves_the_question_open(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        request = await permission_request_of(session)
        assert "is allow_once" in await error_text(session, permission_response(request, "deny", option_id="once"))
        assert "no option 'x'" in await error_text(session, permission_response(request, "allow", option_id="x"))
        await session.send(permission_response(request, "deny"))
        assert text_of(await until(session, "result")) == "no"


async def test_an_answer_to_an_unknown_id_has_no_effect(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        request = await permission_request_of(session)
        assert "is open" in await error_text(session, permission_response("message-1", "allow"))
        assert "is open" in await error_text(session, permission_response("0", "allow"))
        assert session.status() == "waiting"
        await session.send(permission_response(request, "deny"))
        assert text_of(await until(session, "result")) == "no"


async def test_the_first_of_two_answers_counts(folder: Path) -> None:
    async with connected(scripted(ask_with_all_options), folder) as session:
        request = await permission_request_of(session)
        await session.send(permission_response(request, "deny"))
        assert "is open" in await error_text(session, permission_response(request, "allow"))
        assert text_of(await until(session, "result")) == "no"


async def test_an_answer_after_the_run_has_no_effect(folder: Path) -> None:
    seen = asyncio.Event()

    async def script(turn: Turn) -> None:
        asking = asyncio.ensure_future(turn.ask_permission(options=[ONCE]))
        await seen.wait()
        asking.add_done_callback(lambda asking: outcomes.append(asking.result()))

    outcomes: list[str | None] = []
    async with connected(scripted(script), folder) as session:
        request = await permission_request_of(session)
        seen.set()
        await until(session, "result")
        assert "is open" in await error_text(session, permission_response(request, "allow"))
        assert outcomes in ([], [None])


async def test_an_answer_to_a_withdrawn_request_has_no_effect(folder: Path) -> None:
    taken_back = asyncio.Event()

    async def script(turn: Turn) -> None:
        asking = asyncio.ensure_future(turn.ask_permission(options=[ONCE]))
        await taken_back.wait()
        asking.cancel()
        await asyncio.wait([asking])
        await turn.say("never mind")
        await turn.wait_cancelled()

    async with connected(scripted(script), folder) as session:
        request = await permission_request_of(session)
        taken_back.set()
        await until(session, "stream_event")
        assert "is open" in await error_text(session, permission_response(request, "allow"))


class SameId(ScriptedAgent):
    """Asks twice with the same id, the second time once the first was answered."""

    def __init__(self) -> None:
        super().__init__(self._ask_twice)
        self.answered = asyncio.Event()

    def on_received(self, messages: Sequence[Message], at: float) -> None:
        super().on_received(messages, at)
        if any(isinstance(message, Noise) for message in messages):  # an answer that its own peer knows nothing of
            self.answered.set()

    async def _ask_twice(self, turn: Turn) -> object:
        params = {"sessionId": turn.session_id, "toolCall": {"toolCallId": "t"}, "options": [ONCE, NO]}
        line = msgspec.json.encode({"id": "same", "method": "session/request_permission", "params": params}) + b"\n"
        self.raw(line)
        await self.answered.wait()
        self.raw(line)
        return await turn.wait_cancelled()


async def test_a_late_answer_does_not_reach_a_later_request_with_the_same_id(folder: Path) -> None:
    async with connected(scripted(SameId()), folder) as session:
        first = await permission_request_of(session)
        await session.send(permission_response(first, "deny"))
        second = (await until(session, "permission_request"))[-1]
        assert "is open" in await error_text(session, permission_response(first, "allow"))
        assert session.status() == "waiting"
        await session.send(permission_response(second, "deny"))
        assert session.status() == "running"


async def test_two_requests_at_once_are_answered_each_on_its_own(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        # For the same tool call: only the request tells them apart.
        both = [turn.ask_permission(title, options=[ONCE, NO]) for title in ("one", "two")]
        await turn.say(" ".join(str(chosen) for chosen in await asyncio.gather(*both)))

    async with connected(scripted(script), folder) as session:
        first = await permission_request_of(session)
        second = (await until(session, "permission_request"))[-1]
        await session.send(permission_response(second, "allow"))
        await session.send(permission_response(first, "deny"))
        assert text_of(await until(session, "result")) == "no once"


async def test_an_allow_without_an_allowing_option_is_refused_and_has_no_effect(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        await turn.say(str(await turn.ask_permission(options=[NO])))

    async with connected(scripted(script), folder) as session:
        request = await permission_request_of(session)
        assert "no option that allows" in await error_text(session, permission_response(request, "allow"))
        await session.send(permission_response(request, "deny"))
        assert text_of(await until(session, "result")) == "no"


async def test_a_request_that_cannot_be_read_is_shown_but_has_no_answer(folder: Path) -> None:
    async def script(turn: Turn) -> None:
        with pytest.raises(RequestFailed):
            await turn.agent.request("session/request_permission", {"sessionId": turn.session_id})
        await turn.say("refused")

    async with connected(scripted(script), folder) as session:
        request = await permission_request_of(session)
        assert text_of(await until(session, "result")) == "refused"
        assert "is open" in await error_text(session, permission_response(request, "allow"))


# -- requests of the host


async def write_file(turn: Turn) -> None:
    path = f"{turn.agent.all_heard('session/new')[0].params['cwd']}/new.txt"
    try:
        await turn.agent.request(
            "fs/write_text_file", {"sessionId": turn.session_id, "path": path, "content": "written"}
        )
        await turn.say("done")
    except RequestFailed as error:
        await turn.say(str(error.code))


@pytest.mark.parametrize(("behavior", "reply"), [("allow", "done"), ("deny", str(DENIED))])
async def test_a_write_through_dragoman_asks_for_permission_like_the_agent(
    folder: Path, behavior: str, reply: str
) -> None:
    spec = AgentSpec(command=["memory"], write_files=True)
    adapter = BackendAdapter(spec, launch=in_memory(ScriptedAgent(write_file).main))
    async with connected(adapter, SessionConfig(workspace=Workspace(folder))) as session:
        request = await permission_request_of(session)
        assert request.metadata["origin"] == "files"
        assert request.metadata["request_id"] == request.id
        [diff] = request.metadata["toolCall"]["content"]
        assert (diff["type"], diff["newText"]) == ("diff", "written")
        await session.send(permission_response(request, "allow" if behavior == "allow" else "deny"))
        assert text_of(await until(session, "result")) == reply
        assert (folder / "new.txt").exists() == (behavior == "allow")
        assert "is open" in await error_text(session, permission_response(request, "allow"))
