"""Fields: which values each takes, and what someone typed for it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.host.question.form import (
    BooleanField,
    Choice,
    ChoiceField,
    ChoicesField,
    Field,
    InvalidValue,
    NumberField,
    TextField,
    choice_labels,
)

COLOURS = (Choice("red", "Red"), Choice("green", "Dark Green"), Choice("blue", "Blue"))
COLOUR = ChoiceField(name="colour", choices=COLOURS)
TONES = ChoicesField(name="tones", choices=COLOURS, min_items=1, max_items=2)
TEXT = TextField(name="text", min_length=2, max_length=4)
COUNT = NumberField(name="count", whole=True, minimum=0, maximum=10)
RATIO = NumberField(name="ratio", minimum=0.5)
SURE = BooleanField(name="sure")


@pytest.mark.parametrize(
    ("field", "value", "taken"),
    [
        (TEXT, "äöü", "äöü"),
        (COUNT, 3, 3),
        (COUNT, 3.0, 3),
        (RATIO, 1, 1),
        (RATIO, 0.75, 0.75),
        (SURE, False, False),
        (COLOUR, "green", "green"),
        (TONES, ["blue", "red", "blue"], ("red", "blue")),
        (TONES, {"red"}, ("red",)),
    ],
)
def test_a_value_that_fits_is_taken(field: Field, value: object, taken: object) -> None:
    checked = field.validate(value)
    assert checked == taken
    assert type(checked) is type(taken)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (TEXT, 3, "expected text"),
        (TEXT, "a", "at least 2"),
        (TEXT, "abcde", "at most 4"),
        (TEXT, "ab\ud800", "half a character"),
        (COUNT, True, "expected a whole number"),
        (COUNT, "3", "expected a whole number"),
        (COUNT, 3.5, "expected a whole number"),
        (COUNT, -1, "at least 0"),
        (COUNT, 11, "at most 10"),
        (NumberField(name="n"), 10**400, "more digits"),
        (NumberField(name="n"), 2**63, "more digits"),
        (RATIO, float("nan"), "expected a number"),
        (RATIO, float("inf"), "expected a number"),
        (RATIO, 0.1, "at least 0.5"),
        (SURE, 1, "expected True or False"),
        (SURE, "yes", "expected True or False"),
        (COLOUR, "Red", "expected one of 'red', 'green', 'blue'"),
        (COLOUR, ["red"], "expected one of"),
        (TONES, "red", "expected a list"),
        (TONES, [], "at least 1"),
        (TONES, ["red", "green", "blue"], "at most 2"),
        (TONES, ["red", ["x"]], "has ['x']"),
    ],
)
def test_what_does_not_fit_is_refused_with_the_reason(field: Field, value: object, message: str) -> None:
    with pytest.raises(InvalidValue, match=message.replace("[", r"\[")):
        field.validate(value)


@pytest.mark.parametrize(
    ("format", "good", "bad"),
    [
        ("email", "ada@example.org", "ada at example"),
        ("email", "a@localhost", "@example.org"),
        ("uri", "https://example.org/a?b#c", "example.org"),
        ("uri", "urn:isbn:1", "https://exa mple.org"),
        ("date", "2026-02-28", "2026-02-30"),
        ("date", "2026-11-15", "20261115"),
        ("date-time", "2026-11-15T10:30:00Z", "2026-11-15T10:30:00"),
        ("date-time", "2026-11-15T10:30:00.25+01:00", "2026-11-15 25:00:00Z"),
    ],
)
def test_formats_are_checked(format: Any, good: str, bad: str) -> None:
    field = TextField(name="it", format=format)
    assert field.validate(good) == good
    with pytest.raises(InvalidValue, match="such as"):
        field.validate(bad)


def test_a_pattern_is_checked_and_an_unreadable_one_is_left_to_the_agent() -> None:
    field = TextField(name="id", pattern="^[A-Z]{2}$")
    assert field.validate("AB") == "AB"
    with pytest.raises(InvalidValue, match="does not match the pattern"):
        field.validate("abc")
    assert TextField(name="id", pattern=r"^(?=x)$").validate("anything") == "anything"


@pytest.mark.parametrize(
    ("field", "typed", "taken"),
    [
        (TEXT, "  abc \r", "abc"),
        (COUNT, " 7", 7),
        (COUNT, "+7", 7),
        (RATIO, "1.5", 1.5),
        (RATIO, "2", 2),
        (SURE, "Yes", True),
        (SURE, "n", False),
        (COLOUR, "2", "green"),
        (COLOUR, "2)", "green"),
        (COLOUR, "dark green", "green"),
        (COLOUR, "BLUE", "blue"),
        (TONES, "3, 1", ("red", "blue")),
        (TONES, "1 3", ("red", "blue")),
        (TONES, "dark green,1", ("red", "green")),
    ],
)
def test_what_is_typed_is_read(field: Field, typed: str, taken: object) -> None:
    assert field.parse(typed) == taken


@pytest.mark.parametrize(
    ("field", "typed"),
    [
        (TEXT, " a "),
        (COUNT, "seven"),
        (COUNT, "1.5"),
        (COUNT, ""),
        (RATIO, "nan"),
        (RATIO, "1_000"),
        (RATIO, "true"),
        (SURE, "maybe"),
        (COLOUR, "0"),
        (COLOUR, "4"),
        (COLOUR, "-1"),
        (COLOUR, ""),
        (TONES, "1 9"),
        (TONES, ""),
    ],
)
def test_a_typing_error_is_explained(field: Field, typed: str) -> None:
    with pytest.raises(InvalidValue):
        field.parse(typed)


def test_choices_that_are_numbers_are_marked_with_letters() -> None:
    sizes = ChoiceField(name="size", choices=(Choice("2", "2"), Choice("1", "1")))
    assert choice_labels(sizes.choices) == ("a", "b")
    assert sizes.parse("a") == "2"
    assert sizes.parse("2") == "2"  # and a number means what it says
    assert choice_labels(COLOURS) == ("1", "2", "3")


@pytest.mark.parametrize(
    ("name", "title", "secret"),
    [
        ("password", "", True),
        ("k", "Your API key", True),
        ("github_token", "", True),
        ("token", "", True),
        ("x", "Access token", True),
        ("pin", "", True),
        ("spinner", "Shopping list", False),
        ("max_tokens", "How many tokens?", False),
        ("name", "What may I call you?", False),
    ],
)
def test_a_field_that_wants_a_secret_is_noticed(name: str, title: str, secret: bool) -> None:
    assert TextField(name=name, title=title).asks_secret is secret


@given(st.text(), st.integers(0, 5), st.integers(0, 5))
def test_a_text_is_taken_as_it_is_or_refused(value: str, least: int, most: int) -> None:
    field = TextField(name="it", min_length=least, max_length=most)
    try:
        assert field.validate(value) == value
    except InvalidValue:
        assert not least <= len(value) <= most or any("\ud800" <= letter <= "\udfff" for letter in value)


@given(st.text())
def test_nothing_typed_breaks_a_field(typed: str) -> None:
    for field in (TEXT, COUNT, RATIO, SURE, COLOUR, TONES):
        try:
            value = field.parse(typed)
        except InvalidValue:
            continue
        assert field.validate(value) == value


@pytest.mark.parametrize(
    ("field", "requirement"),
    [
        (TextField(name="x"), ""),
        (TextField(name="x", min_length=2, max_length=5, pattern="^a"), "2 to 5 characters, matching ^a"),
        (TextField(name="x", format="date", max_length=10), "a date, such as 2026-11-15, at most 10 characters"),
        (NumberField(name="x"), "a number"),
        (NumberField(name="x", whole=True, minimum=1), "a whole number, at least 1"),
        (BooleanField(name="x"), "y/n"),
        (ChoiceField(name="x", choices=(Choice("a", "A"), Choice("b", "B"))), "1-2"),
        (ChoiceField(name="x", choices=(Choice("a", "A"),)), "1"),
        (
            ChoicesField(name="x", choices=(Choice("a", "A"), Choice("b", "B")), min_items=1, max_items=2),
            "some of 1-2, as 1,2, 1 to 2 of them",
        ),
    ],
)
def test_a_field_says_what_an_answer_has_to_be(field: Field, requirement: str) -> None:
    assert field.requirement == requirement
