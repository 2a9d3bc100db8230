"""Forms: read from a schema, and the content that fits them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.agents.demo.requests import DOCUMENT
from dragoman.errors import InputError
from dragoman.host.question.form import (
    BooleanField,
    Choice,
    ChoiceField,
    ChoicesField,
    Form,
    NumberField,
    TextField,
    read_form,
)


def form_of(required: list[str] | None = None, /, **properties: Any) -> Form:
    return read_form(msgspec.json.encode({"type": "object", "properties": properties, "required": required}))


def field_of(schema: dict[str, Any]) -> Any:
    form = form_of(it=schema)
    assert form.left_out == ()
    return form.fields[0]


def test_each_kind_of_property_becomes_its_field() -> None:
    form = read_form(msgspec.json.encode(DOCUMENT.form))
    assert form.title == "About you"
    assert [(field.name, type(field), field.required) for field in form.fields] == [
        ("colour", ChoiceField, True),
        ("name", TextField, False),
        ("files", NumberField, False),
        ("languages", ChoicesField, False),
        ("happy", BooleanField, False),
    ]
    assert form.defaults == {"files": 1, "happy": True}


def test_what_a_property_says_is_kept() -> None:
    text = field_of(
        {"type": "string", "title": "T", "description": "D", "minLength": 1, "maxLength": 9, "pattern": "x"}
    )
    assert text == TextField(name="it", title="T", description="D", min_length=1, max_length=9, pattern="x")
    assert field_of({"type": "string", "format": "date"}).format == "date"
    assert field_of({"type": "number", "minimum": 0.5, "maximum": 2}) == NumberField(name="it", minimum=0.5, maximum=2)
    assert field_of({"type": "integer", "default": 4}) == NumberField(name="it", whole=True, default=4)
    many = field_of({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}, "minItems": 1, "maxItems": 2})
    assert (many.min_items, many.max_items, many.choices) == (1, 2, (Choice("a", "a"), Choice("b", "b")))


def test_choices_have_their_titles_however_these_are_written() -> None:
    titled = (Choice("a", "Ah", "the first"), Choice("b", "Be"))
    options = [{"const": "a", "title": "Ah", "description": "the first"}, {"const": "b", "title": "Be"}]
    assert field_of({"type": "string", "oneOf": options}).choices == titled
    assert field_of({"type": "array", "items": {"anyOf": options}}).choices == titled
    plain = (Choice("a", "Ah"), Choice("b", "Be"))
    assert field_of({"type": "string", "enum": ["a", "b"], "enumNames": ["Ah", "Be"]}).choices == plain
    # Not one for each: nobody knows which is whose.
    assert field_of({"type": "string", "enum": ["a", "b"], "enumNames": ["Ah"]}).choices[0].title == "a"
    assert len(field_of({"type": "string", "enum": ["a", "b", "a"]}).choices) == 2


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {}},
        {"type": "_rating", "stars": 5},
        {"type": ["string", "null"]},
        {"type": "array", "items": {"type": "integer"}},
        {"type": "array"},
        {"type": "string", "enum": []},
        {"type": "string", "format": "phone"},
        {"type": "string", "minLength": "two"},
        {"title": "no type"},
        "string",
        None,
    ],
)
def test_what_is_of_no_known_kind_is_left_out_and_never_shown_as_another(schema: object) -> None:
    form = form_of(known={"type": "boolean"}, strange=schema)
    assert [field.name for field in form.fields] == ["known"]
    assert form.left_out == ("strange",)
    assert form.validate({"known": True}) == {"known": True}
    with pytest.raises(InputError, match="strange is not a field"):
        form.validate({"strange": "x"})


@pytest.mark.parametrize("properties", [{"strange": {"type": "_rating"}}, {}])
def test_a_form_that_needs_what_cannot_be_asked_for_has_no_answer(properties: dict[str, Any]) -> None:
    form = form_of(["strange"], **properties)
    assert form.error is not None
    assert "strange" in form.error
    with pytest.raises(InputError, match="strange"):
        form.validate({})


def test_one_bad_word_costs_a_property_no_more_than_that_word() -> None:
    assert field_of({"type": "string", "title": 7, "default": 3}) == TextField(name="it")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer", "minimum": 5, "default": 1},
        {"type": "string", "enum": ["a"], "default": "b"},
        {"type": "string", "format": "date", "default": "soon"},
        {"type": "array", "items": {"enum": ["a"], "type": "string"}, "default": ["b"]},
    ],
)
def test_a_default_that_does_not_fit_is_no_offer(schema: dict[str, Any]) -> None:
    assert field_of(schema).default is None


def test_reading_tries_no_pattern(monkeypatch: pytest.MonkeyPatch) -> None:
    def tried(pattern: str, text: str) -> str:
        raise AssertionError("others wait while a question is read")

    monkeypatch.setattr("dragoman.host.question.form.match_pattern", tried)
    assert field_of({"type": "string", "pattern": "^(a+)+$", "default": "aaa"}).default == "aaa"


@pytest.mark.parametrize("schema", [b"[]", b"null", b'{"type":"array"}', b'{"properties":[]}', b"{"])
def test_what_is_no_schema_of_an_object_is_no_form(schema: bytes) -> None:
    with pytest.raises(msgspec.MsgspecError):
        read_form(schema)


def test_invalid_content_is_explained_field_by_field() -> None:
    form = read_form(msgspec.json.encode(DOCUMENT.form))
    with pytest.raises(InputError) as failed:
        form.validate({"files": -1, "shoe": 43})
    assert str(failed.value) == (
        "the answer does not fit the form: shoe is not a field of this form; colour is required; "
        "files is -1; it must be at least 0"
    )
    assert failed.value.guidance == "The form has the fields colour (required), name, files, languages, happy."


def test_defaults_are_offers_and_are_not_sent_by_themselves() -> None:
    form = read_form(msgspec.json.encode(DOCUMENT.form))
    assert form.validate({"colour": "red"}) == {"colour": "red"}
    assert form.validate({**form.defaults, "colour": "red", "name": None}) == {
        "colour": "red",
        "files": 1,
        "happy": True,
    }


VALUES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.lists(st.text(max_size=5))
KEYS = st.sampled_from(["colour", "name", "files", "languages", "happy", "other"])


@given(st.dictionaries(KEYS, VALUES))
def test_accepted_content_is_the_given_content_and_fits_the_schema(content: dict[str, object]) -> None:
    form = read_form(msgspec.json.encode(DOCUMENT.form))
    try:
        taken = form.validate(content)
    except InputError:
        return
    assert set(taken) == {name for name, value in content.items() if value is not None}
    assert taken["colour"] in ("red", "green", "blue")
    assert form.validate(taken) == taken
    msgspec.json.encode(taken)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(
        st.sampled_from(["type", "enum", "oneOf", "items", "anyOf", "const", "title", "default", "minLength"]),
        inner | st.sampled_from(["string", "array", "integer", "boolean"]),
        max_size=4,
    ),
    max_leaves=8,
)  # fmt: skip


@given(st.dictionaries(st.text(max_size=3), ANY_JSON, max_size=3))
def test_no_property_breaks_a_form(properties: dict[str, Any]) -> None:
    form = read_form(msgspec.json.encode({"properties": properties}))
    assert {field.name for field in form.fields} | set(form.left_out) == set(properties)


def test_errors_are_listed_by_field_for_a_page_that_shows_them_beside_it() -> None:
    form = read_form(msgspec.json.encode(DOCUMENT.form))
    assert form.errors({"files": -1, "shoe": 43}) == {
        "shoe": "is not a field of this form",
        "colour": "is required",
        "files": "is -1; it must be at least 0",
    }
    assert form.errors({"colour": "red"}) == {}
