"""Answers to permission requests: options are taken by their kind."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.errors import InputError
from dragoman.host.permission import CANCELLED, Option, PermissionAnswer, PermissionRequest, answer_of

KINDS = {
    "a1": "allow_once",
    "a2": "allow_once",
    "A1": "allow_always",
    "A2": "allow_always",
    "r1": "reject_once",
    "R1": "reject_always",
    "u1": "allow_for_five_minutes",
    "u2": "reject_once_and_for_all",
}


def request_with(*ids: str) -> PermissionRequest:
    options = tuple(Option(option_id, option_id, KINDS[option_id]) for option_id in ids)
    return PermissionRequest(session_id="s", tool_call_id="t", title="Edit", kind="edit", options=options)


@pytest.mark.parametrize(
    ("options", "once", "always"),
    [
        (["a1", "A1", "r1", "R1"], "a1", "A1"),
        (["R1", "r1", "A1", "a1"], "a1", "A1"),  # goose, gemini: "always" comes first
        (["A1", "A2", "a1", "r1"], "a1", "A1"),  # two of one kind
        (["r1", "a1"], "a1", "a1"),
        (["r1", "A1"], "A1", "A1"),
        (["u1", "A1", "u2"], "A1", "A1"),
    ],
)
def test_allow_takes_an_allowing_option_wherever_it_stands(options: list[str], once: str, always: str) -> None:
    assert request_with(*options).allow() == PermissionAnswer("selected", once, allowed=True)
    assert request_with(*options).allow(always=True) == PermissionAnswer("selected", always, allowed=True, always=True)


@pytest.mark.parametrize("options", [[], ["r1"], ["R1", "r1"], ["u1"], ["u2", "u1"]])
def test_nothing_is_allowed_where_no_option_allows(options: list[str]) -> None:
    with pytest.raises(InputError, match="no option that allows 'Edit': it offers"):
        request_with(*options).allow()
    with pytest.raises(InputError):
        request_with(*options).allow(always=True)


@pytest.mark.parametrize(
    ("options", "once", "always"),
    [
        (["a1", "A1", "r1", "R1"], "r1", "R1"),
        (["R1", "r1", "A1", "a1"], "r1", "R1"),
        (["a1", "r1"], "r1", "r1"),
        (["a1", "R1"], "R1", "R1"),
    ],
)
def test_reject_takes_a_rejecting_option_wherever_it_stands(options: list[str], once: str, always: str) -> None:
    assert request_with(*options).reject() == PermissionAnswer("selected", once)
    assert request_with(*options).reject(always=True) == PermissionAnswer("selected", always, always=True)


@pytest.mark.parametrize("options", [[], ["a1"], ["A1", "a1"], ["u1", "u2"]])
def test_a_refusal_without_an_option_for_it_cancels(options: list[str]) -> None:
    assert request_with(*options).reject() == CANCELLED
    assert request_with(*options).reject(always=True) == PermissionAnswer("cancelled", always=True)


def test_a_refusal_never_takes_an_id_that_could_be_read_as_allowing() -> None:
    options = (Option("x", "Yes", "allow_once"), Option("x", "No", "reject_once"))
    request = PermissionRequest(session_id="s", tool_call_id="t", title="Edit", kind="edit", options=options)
    assert request.reject() == CANCELLED
    assert request.select("x").allowed


def test_select_takes_any_option_by_its_id_and_knows_whether_it_allows() -> None:
    request = request_with("a1", "A1", "r1", "u1")
    assert [request.select(option).allowed for option in ("a1", "A1", "r1", "u1")] == [True, True, False, False]


def test_an_id_that_stands_for_two_things_is_not_remembered() -> None:
    options = (Option("x", "Always", "allow_always"), Option("x", "Once", "allow_once"))
    request = PermissionRequest(session_id="s", tool_call_id="t", title="Edit", kind="edit", options=options)
    assert not request.select("x").always
    options = (Option("x", "Always", "allow_always"), Option("x", "Never", "reject_always"))
    assert not msgspec.structs.replace(request, options=options).select("x").always


def test_an_unknown_option_is_named_with_those_there_are() -> None:
    with pytest.raises(InputError, match=r"no option 'b': it offers 'a1' \(allow_once\)"):
        request_with("a1").select("b")


@pytest.mark.parametrize(
    ("reply", "answer"),
    [
        (True, PermissionAnswer("selected", "a1", allowed=True)),
        (False, PermissionAnswer("selected", "r1")),
        ("A1", PermissionAnswer("selected", "A1", allowed=True, always=True)),
        (
            PermissionAnswer("selected", "A1", allowed=True),
            PermissionAnswer("selected", "A1", allowed=True),
        ),  # meant once
        (
            PermissionAnswer("selected", "a1", always=True),
            PermissionAnswer("selected", "a1", allowed=True, always=True),
        ),
        ("r1", PermissionAnswer("selected", "r1")),
        (None, CANCELLED),
        (CANCELLED, CANCELLED),
        (PermissionAnswer("selected", "a1", allowed=True), PermissionAnswer("selected", "a1", allowed=True)),
        (
            PermissionAnswer("selected", "r1", allowed=True),
            PermissionAnswer("selected", "r1"),
        ),  # what it allows is not the callback's word
    ],
)
def test_short_replies_mean_answers(reply: object, answer: PermissionAnswer) -> None:
    assert answer_of(request_with("A1", "a1", "r1"), reply) == answer


@pytest.mark.parametrize(
    "reply",
    [1, 0, "", "maybe", [], {"outcome": "allow"}, PermissionAnswer("selected", "x"), PermissionAnswer("selected")],
)
def test_nonsense_is_no_answer(reply: object) -> None:
    with pytest.raises(InputError):
        answer_of(request_with("A1", "a1", "r1"), reply)
