"""Actions of a front end: one test for each row of the table, and errors name the wrong field."""

from __future__ import annotations

from typing import Any

import pytest

from dragoman.backend.messages import (
    AnswerPermission,
    ChangeSetting,
    Interrupt,
    SendPrompt,
    UnifiedMessage,
    choose_answer,
    parse_actions,
)
from dragoman.errors import InputError
from dragoman.host.permission import CANCELLED, Option, PermissionAnswer, PermissionRequest
from dragoman.wire import vocabulary as acp

ONCE = Option("once", "Once", "allow_once")
ALWAYS = Option("always", "Always", "allow_always")
NO = Option("no", "No", "reject_once")
NEVER = Option("never", "Never", "reject_always")
ODD = Option("odd", "Odd", "ask_my_boss")


def message(type_: Any, *content: Any, **metadata: Any) -> UnifiedMessage:
    return UnifiedMessage(id="m", timestamp=0.0, type=type_, role="user", content=content, metadata=metadata)


def asking(*options: Option) -> PermissionRequest:
    return PermissionRequest(session_id="s", tool_call_id="t", title="it", kind="edit", options=options)


# -- the table, row by row


def test_a_user_message_is_a_prompt_of_its_blocks() -> None:
    image = {"type": "image", "mimeType": "image/png", "data": "aGk="}
    [action] = parse_actions(message("user_message", {"type": "text", "text": "look"}, image))
    assert action == SendPrompt((acp.TextContent(text="look"), acp.ImageContent(mime_type="image/png", data="aGk=")))


def test_a_slash_command_is_a_prompt_like_any_other() -> None:
    [action] = parse_actions(message("user_message", {"type": "text", "text": "/web cats"}))
    assert action == SendPrompt((acp.TextContent(text="/web cats"),))


def test_an_allowing_permission_response_takes_an_option_that_allows() -> None:
    [action] = parse_actions(message("permission_response", request_id="q", behavior="allow"))
    assert action == AnswerPermission("q", "allow")
    assert choose_answer(asking(NO, ALWAYS, ONCE), action) == PermissionAnswer("selected", "once", allowed=True)
    assert choose_answer(asking(NO, ALWAYS), action) == PermissionAnswer("selected", "always", allowed=True)


def test_a_denying_permission_response_takes_an_option_that_rejects() -> None:
    [action] = parse_actions(message("permission_response", request_id="q", behavior="deny"))
    assert action == AnswerPermission("q", "deny")
    assert choose_answer(asking(ONCE, NEVER, NO), action) == PermissionAnswer("selected", "no")
    assert choose_answer(asking(ONCE, NEVER), action) == PermissionAnswer("selected", "never")


def test_an_interrupt_is_an_interrupt() -> None:
    assert parse_actions(message("interrupt")) == (Interrupt(),)


@pytest.mark.parametrize("key", ["model", "modelId"])
def test_a_configuration_change_may_change_the_model(key: str) -> None:
    assert parse_actions(message("configuration_change", **{key: "large"})) == (ChangeSetting("model", "large"),)


@pytest.mark.parametrize("key", ["modeId", "mode"])
def test_a_configuration_change_may_change_the_mode(key: str) -> None:
    assert parse_actions(message("configuration_change", **{key: "plan"})) == (ChangeSetting("mode", "plan"),)


# -- what the table leaves open


def test_model_and_mode_can_change_at_once() -> None:
    actions = parse_actions(message("configuration_change", modeId="plan", model="large"))
    assert actions == (ChangeSetting("model", "large"), ChangeSetting("mode", "plan"))


def test_an_option_can_be_named() -> None:
    [action] = parse_actions(message("permission_response", request_id="q", behavior="allow", optionId="always"))
    assert isinstance(action, AnswerPermission)
    assert choose_answer(asking(ONCE, ALWAYS), action).option_id == "always"


def test_a_denial_without_a_rejecting_option_cancels() -> None:
    assert choose_answer(asking(ONCE), AnswerPermission("q", "deny")) == CANCELLED


@pytest.mark.parametrize(
    ("options", "given", "says"),
    [
        ((NO,), AnswerPermission("q", "allow"), "no option that allows"),
        ((ONCE, NO), AnswerPermission("q", "allow", "no"), "is reject_once"),
        ((ONCE, NO), AnswerPermission("q", "deny", "once"), "is allow_once"),
        ((ONCE, ODD), AnswerPermission("q", "allow", "odd"), "is ask_my_boss"),
        ((ONCE, ODD), AnswerPermission("q", "deny", "odd"), "is ask_my_boss"),
        ((ONCE, NO), AnswerPermission("q", "allow", "yes"), "no option 'yes'"),
        # One id for both: nobody can say which of them the agent takes.
        ((ONCE, Option("once", "No", "reject_once")), AnswerPermission("q", "deny", "once"), "allow_once, reject_once"),
    ],
)
def test_an_answer_that_contradicts_itself_is_refused(
    options: tuple[Option, ...], given: AnswerPermission, says: str
) -> None:
    with pytest.raises(InputError, match=says):
        choose_answer(asking(*options), given)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (message("user_message"), "content: the prompt is empty"),
        (message("user_message", {"type": "text", "text": " \n"}), "content: the prompt is empty"),
        (message("user_message", {"type": "text", "text": "a"}, {"type": "smell"}), r"content\[1\]"),
        (message("user_message", {"type": "text"}), r"content\[0\].*text"),
        (message("permission_response", behavior="allow"), "metadata.request_id is missing"),
        (message("permission_response", request_id=3, behavior="allow"), "metadata.request_id is 3"),
        (message("permission_response", request_id="q"), "metadata.behavior is None"),
        (message("permission_response", request_id="q", behavior="maybe"), "metadata.behavior is 'maybe'"),
        (message("permission_response", request_id="q", behavior="allow", optionId=""), "metadata.optionId"),
        (message("configuration_change"), "neither a model nor a modeId"),
        (message("configuration_change", model=5), "metadata.model is 5"),
        (message("result"), "type is 'result'"),
        (message("sing"), "type is 'sing'"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_error_names_the_invalid_field_of_a_message(wrong: UnifiedMessage, says: str) -> None:
    with pytest.raises(InputError, match=says):
        parse_actions(wrong)
