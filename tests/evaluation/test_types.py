"""Types through JSON Schema and back, and the errors about a value that does not fit."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, Literal, NamedTuple, Optional
from uuid import UUID

import jsonschema  # type: ignore[import-untyped]  # it ships no types
import msgspec
import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import TypedDict

from dragoman.errors import InputError
from dragoman.evaluation.types import Invalid, decode, encode, object_schema, schema_of, shape_of


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Item:
    sku: str
    count: int
    colour: Colour = Colour.RED
    tags: list[str] = field(default_factory=list)


@dataclass
class Box:
    items: list[Item]
    label: str | None = None


@dataclass
class Missing:
    reason: str


@dataclass
class Tree:
    name: str
    children: list[Tree] = field(default_factory=list)


class Order(msgspec.Struct):
    id: int
    lines: tuple[Item, ...] = ()


class Closed(msgspec.Struct, forbid_unknown_fields=True):
    id: int


class Address(pydantic.BaseModel):
    street: str
    number: int = pydantic.Field(ge=1)


class Person(pydantic.BaseModel):
    name: str
    homes: list[Address] = []
    born: date | None = None


class Locked(pydantic.BaseModel, extra="forbid"):
    name: str


class Point(TypedDict):
    x: int
    y: int


class Pair(NamedTuple):
    left: int
    right: str


SCHEMA: dict[str, Any] = {
    "title": "Verdict",
    "type": "object",
    "properties": {"ok": {"type": "boolean"}, "score": {"type": "number", "minimum": 0}},
    "required": ["ok"],
    "additionalProperties": False,
}

words = st.text(max_size=8)
whole = st.integers(-(2**53), 2**53)
items = st.builds(Item, words, whole, st.sampled_from(Colour), st.lists(words, max_size=3))
addresses = st.builds(Address, street=words, number=st.integers(1, 1000))
people = st.builds(
    Person, name=words, homes=st.lists(addresses, max_size=2), born=st.none() | st.dates(date(1900, 1, 1))
)

TABLE: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": (bool, st.booleans()),
    "int": (int, whole),
    "float": (float, st.floats(allow_nan=False, allow_infinity=False)),
    "str": (str, st.text()),
    "bytes": (bytes, st.binary(max_size=20)),
    "None": (type(None), st.none()),
    "date": (date, st.dates()),
    "datetime": (datetime, st.datetimes(timezones=st.just(UTC))),
    "uuid": (UUID, st.uuids()),
    "decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "path": (Path, st.sampled_from([Path("a/b"), Path("/c")])),
    "literal": (Literal["a", "b", 3], st.sampled_from(["a", "b", 3])),
    "enum": (Colour, st.sampled_from(Colour)),
    "optional": (Optional[int], st.none() | whole),  # noqa: UP045 - the old spelling too
    "scalar union": (int | str | None, st.none() | whole | words),
    "list": (list[int], st.lists(whole)),
    "tuple": (tuple[int, str], st.tuples(whole, words)),
    "tuple of any length": (tuple[int, ...], st.lists(whole).map(tuple)),
    "set": (set[int], st.sets(whole)),
    "dict": (dict[str, int], st.dictionaries(words, whole)),
    "list of lists": (list[list[str]], st.lists(st.lists(words, max_size=3), max_size=3)),
    "dataclass": (Item, items),
    "nested dataclass": (Box, st.builds(Box, st.lists(items, max_size=3), st.none() | words)),
    "recursive dataclass": (Tree, st.builds(Tree, words, st.lists(st.builds(Tree, words), max_size=2))),
    "list of dataclasses": (list[Item], st.lists(items, max_size=3)),
    "optional dataclass": (Item | None, st.none() | items),
    "union of dataclasses": (Item | Missing, items | st.builds(Missing, words)),
    "list of a union": (list[Item | Missing], st.lists(items | st.builds(Missing, words), max_size=3)),
    "dict of dataclasses": (dict[str, Item], st.dictionaries(words, items, max_size=3)),
    "msgspec": (Order, st.builds(Order, whole, st.lists(items, max_size=2).map(tuple))),
    "list of msgspec": (list[Order], st.lists(st.builds(Order, whole), max_size=3)),
    "pydantic": (Person, people),
    "list of pydantic": (list[Person], st.lists(people, max_size=2)),
    "optional pydantic": (Person | None, st.none() | people),
    "pydantic or text": (Person | str, people | words),
    "TypedDict": (Point, st.fixed_dictionaries({"x": whole, "y": whole})),
    "list of TypedDict": (list[Point], st.lists(st.fixed_dictionaries({"x": whole, "y": whole}), max_size=3)),
    "NamedTuple": (Pair, st.builds(Pair, whole, words)),
    "any": (Any, st.none() | whole | words | st.lists(whole)),
    "schema": (SCHEMA, st.fixed_dictionaries({"ok": st.booleans()}, optional={"score": st.floats(0, 9)})),
    "schema of a list": ({"type": "array", "items": {"type": "integer"}}, st.lists(whole)),
}


@pytest.mark.parametrize("name", TABLE)
@settings(deadline=None)  # the machine may be busy
@given(data=st.data())
def test_a_value_goes_through_json_and_back(name: str, data: st.DataObject) -> None:
    type_, values = TABLE[name]
    value = data.draw(values)
    shape = shape_of(type_)
    wire = json.loads(json.dumps(encode(value)))
    jsonschema.Draft202012Validator(shape.schema).validate(wire)
    assert decode(type_, wire) == value
    wrapped = json.loads(json.dumps(shape.encode_object(value)))
    jsonschema.Draft202012Validator(shape.object_schema).validate(wrapped)
    assert shape.decode_object(wrapped) == value


@pytest.mark.parametrize("name", TABLE)
def test_the_schema_for_an_agent_is_an_object(name: str) -> None:
    schema = shape_of(TABLE[name][0]).object_schema
    assert schema["type"] == "object"
    jsonschema.Draft202012Validator.check_schema(schema)


@settings(deadline=None)  # the machine may be busy
@given(
    type_=st.sampled_from([name for name in TABLE if name != "any"]),
    junk=st.recursive(
        st.none() | st.booleans() | whole | words,
        lambda inner: st.lists(inner) | st.dictionaries(words, inner),
        max_leaves=6,
    ),
)
def test_a_decoded_value_fits_the_schema_and_any_other_has_an_error(type_: str, junk: Any) -> None:
    shape = shape_of(TABLE[type_][0])
    fits = jsonschema.Draft202012Validator(shape.schema).is_valid(junk)
    try:
        shape.decode(junk)
    except Invalid as problem:
        messages = [each.message for each in problem.problems]
        if not (messages and all(messages)):
            pytest.fail("it does not say what is wrong")
    else:
        # Unknown fields of a schema are dropped first, and a number is taken for a decimal.
        assert fits or type_ in ("schema", "decimal")


@pytest.mark.parametrize(
    ("type_", "value", "messages"),
    [
        (int, "5", ['expected integer, got "5"']),
        (int, 5.0, ["expected integer, got 5.0"]),
        (bool, 1, ["expected boolean, got 1"]),
        ({"type": "array", "items": {"type": "integer"}}, [False], ["[0]: expected integer, got false"]),
        (list[int], [1, "x", None], ['[1]: expected integer, got "x"', "[2]: expected integer, got null"]),
        (Item, {"count": "3"}, ["the field 'sku' is missing", 'count: expected integer, got "3"']),
        (Item, [], ["expected object, got a list"]),
        (
            Box,
            {"items": [{"sku": "a", "count": 1}, {"sku": "b", "count": 1, "colour": "green"}]},
            ['items[1].colour: expected one of "blue", "red", got "green"'],
        ),
        (
            Person,
            {"name": "A", "homes": [{"street": "S", "number": 0}]},
            ["homes[0].number: expected at least 1, got 0"],
        ),
        (Person, {"name": "A", "born": "soon"}, ['born: expected a date, got "soon"']),
        (list[Person], [{"name": 3}], ["[0].name: expected string, got 3"]),
        (Item | Missing, {"reason": 3}, ["expected Item or Missing, got an object"]),
        (Item | None, {"sku": "a", "count": None}, ["count: expected integer, got null"]),
        (int | str, [], ["expected integer or string, got a list"]),
        (Literal["a", "b"], "c", ['expected one of "a", "b", got "c"']),
        (list[UUID], ["x"], ['[0]: expected a uuid, got "x"']),
        (SCHEMA, {"ok": "yes", "score": -1}, ['ok: expected boolean, got "yes"', "score: expected at least 0, got -1"]),
        (dict[str, int], {"a b": "x"}, ['["a b"]: expected integer, got "x"']),
    ],
)
def test_the_errors_of_a_bad_value_have_their_paths(type_: Any, value: Any, messages: list[str]) -> None:
    with pytest.raises(Invalid) as failed:
        decode(type_, value)
    assert sorted(map(str, failed.value.problems)) == sorted(messages)


@pytest.mark.parametrize(
    ("type_", "value", "known"),
    [
        (Item, {"sku": "a", "count": 1, "more": 2}, Item("a", 1)),
        (Closed, {"id": 1, "more": 2}, Closed(1)),
        (list[Closed], [{"id": 1, "more": 2}], [Closed(1)]),
        (Closed | None, {"id": 1, "more": 2}, Closed(1)),
        (Locked, {"name": "a", "more": 2}, Locked(name="a")),
        (SCHEMA, {"ok": True, "more": 2}, {"ok": True}),
    ],
)
def test_unknown_fields_are_ignored_also_where_the_class_forbids_them(type_: Any, value: Any, known: Any) -> None:
    assert decode(type_, value) == known


def test_the_objection_of_a_pydantic_validator_has_its_path() -> None:
    class Even(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def even(cls, number: int) -> int:
            if number % 2:
                raise ValueError("not even")
            return number

    with pytest.raises(Invalid) as failed:
        decode(list[Even], [{"number": 2}, {"number": 3}])
    assert [str(each) for each in failed.value.problems] == ["[1].number: Value error, not even"]


def test_a_path_in_a_wrapped_value_begins_where_the_agent_put_it() -> None:
    with pytest.raises(Invalid, match=r"^value\[1\]: expected integer") as failed:
        shape_of(list[int]).decode_object({"value": [1, "x"]})
    assert failed.value.problems[0].path == ("value", 1)
    with pytest.raises(Invalid, match="the field 'value' is missing"):
        shape_of(int).decode_object({})


@pytest.mark.parametrize("type_", [object(), "Item", lambda: 3, type("Odd", (), {})])
def test_a_type_without_a_schema_is_refused_by_name(type_: Any) -> None:
    with pytest.raises(InputError):
        schema_of(type_)


@pytest.mark.parametrize(
    ("schema", "messages"),
    [
        ({"type": "strange"}, "not a JSON Schema"),
        ({"$ref": "https://example.test/schema.json"}, "which is outside of it"),
        ({"properties": {"a": {"$ref": "other.json#/x"}}}, "which is outside of it"),
    ],
)
def test_a_schema_that_is_invalid_or_points_elsewhere_is_refused(schema: dict[str, Any], messages: str) -> None:
    with pytest.raises(InputError, match=messages):
        schema_of(schema)


def test_two_types_of_one_name_keep_apart_among_the_arguments_of_a_tool() -> None:
    other = {
        "type": "object",
        "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        "$defs": {"Tree": {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}},
        "required": ["tree"],
    }
    schema = object_schema({"one": globals()["Tree"], "other": other}, ["one", "other"])
    validator = jsonschema.Draft202012Validator(schema)
    assert validator.is_valid({"one": {"name": "a", "children": [{"name": "b"}]}, "other": {"tree": {"age": 3}}})
    assert not validator.is_valid({"one": {"name": "a", "children": [{"age": 3}]}, "other": {"tree": {"age": 3}}})
    assert not validator.is_valid({"one": {"name": "a"}, "other": {"tree": {"name": "b"}}})


def test_a_value_that_is_nested_without_end_is_refused_with_a_message() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    nested: dict[str, Any] = {"$ref": "#/$defs/n", "$defs": {"n": {"type": "array", "items": {"$ref": "#/$defs/n"}}}}
    with pytest.raises(Invalid, match="too deeply"):
        decode(nested, deep)


def test_a_value_that_json_cannot_express_cannot_be_encoded() -> None:
    with pytest.raises(InputError, match="object"):
        encode({"a": object()})


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_a_number_that_json_does_not_have_is_neither_decoded_nor_encoded(number: float) -> None:
    for type_ in (float, Any, {"type": "number"}):
        with pytest.raises(Invalid, match="is not a number in JSON"):
            decode(type_, number)
    with pytest.raises(Invalid, match="is not a number in JSON"):
        shape_of(list[float]).decode_object({"value": [1.0, number]})
    with pytest.raises(InputError, match="cannot be written as JSON"):
        encode({"a": [number]})
