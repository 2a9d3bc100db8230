"""Functions as tools: what an agent is told of them, and how its arguments become theirs."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict

import msgspec
import pytest
from pydantic import BaseModel

from dragoman import ImageAttachment
from dragoman.errors import InputError
from dragoman.evaluation.content import MAX_RESULT_BYTES
from dragoman.evaluation.tool import Tool, ToolContext, tool, tools_of
from dragoman.evaluation.types import Invalid


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


@dataclass
class Point:
    x: int
    y: int = 0


class Struct(msgspec.Struct):
    name: str


class Model(BaseModel):
    point: Point
    tags: list[str] = []


class Typed(TypedDict):
    name: str


def take(
    text: str,
    point: Point,
    struct: Struct,
    model: Model,
    typed: Typed,
    colours: list[Colour],
    when: date,
    how: Literal["fast", "slow"] = "fast",
    limit: int | None = None,
) -> str:
    """Take everything."""
    return f"{text} {point} {struct} {model!r} {typed} {colours} {when} {how} {limit}"


ARGUMENTS = {
    "text": "a",
    "point": {"x": 1},
    "struct": {"name": "s"},
    "model": {"point": {"x": 2}},
    "typed": {"name": "t"},
    "colours": ["red"],
    "when": "2026-01-02",
}


def call(made: Tool, arguments: Any, context: ToolContext | None = None) -> Any:
    return made.bound(arguments, context or ToolContext())()


def test_arguments_of_every_kind_become_what_the_hints_say() -> None:
    taken: dict[str, Any] = {}

    @functools.wraps(take)
    def keep(**given: Any) -> None:
        taken.update(given)

    call(Tool(keep), ARGUMENTS)
    assert taken["point"] == Point(1, 0)
    assert taken["struct"] == Struct("s")
    assert taken["model"] == Model(point=Point(2))
    assert taken["typed"] == {"name": "t"}
    assert taken["colours"] == [Colour.RED]
    assert taken["when"] == date(2026, 1, 2)
    assert (taken["how"], taken["limit"]) == ("fast", None)


def test_the_schema_has_types_defaults_and_required_arguments() -> None:
    schema = Tool(take).input_schema
    assert schema["type"] == "object"
    assert schema["required"] == ["text", "point", "struct", "model", "typed", "colours", "when"]
    assert schema["properties"]["text"] == {"type": "string"}
    assert schema["properties"]["how"]["default"] == "fast"
    assert schema["properties"]["how"]["enum"] == ["fast", "slow"]
    assert schema["properties"]["limit"]["default"] is None
    assert all(name in schema.get("$defs", {}) for name in _references(schema))


def _references(part: Any) -> list[str]:
    if isinstance(part, list):
        return [name for each in part for name in _references(each)]
    if not isinstance(part, dict):
        return []
    own = [part["$ref"].removeprefix("#/$defs/")] if "$ref" in part else []
    return own + [name for each in part.values() for name in _references(each)]


def test_all_errors_of_the_arguments_are_reported_at_once_with_their_paths() -> None:
    wrong = {**ARGUMENTS, "text": 5, "point": {"x": "one"}, "how": "later"}
    del wrong["when"]
    with pytest.raises(Invalid) as refused:
        Tool(take).bound(wrong, ToolContext())
    messages = [str(problem) for problem in refused.value.problems]
    assert "text: expected string, got 5" in messages
    assert 'point.x: expected integer, got "one"' in messages
    assert "the argument 'when' is missing" in messages
    assert any(problem.startswith("how: ") for problem in messages)
    assert len(messages) == 4


def test_unknown_arguments_are_ignored() -> None:
    assert call(tool(lambda_named), {"text": "a", "more": 1}) == "a"


def lambda_named(text: str) -> str:
    return text


@pytest.mark.parametrize("arguments", [[], "text", None])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(Invalid, match="not an object"):
        Tool(lambda_named).bound(arguments, ToolContext())


def test_a_decorated_function_is_still_that_function() -> None:
    @tool(name="renamed", description="Other words.", read_only=True)
    def double(number: int) -> int:
        """Words."""
        return 2 * number

    assert double(4) == 8
    assert (double.name, double.description, double.read_only) == ("renamed", "Other words.", True)
    assert double.__doc__ == "Words."


def test_the_context_is_injected_and_no_argument() -> None:
    heard: list[tuple[float, float | None, str | None]] = []

    def work(steps: int, *, ctx: ToolContext) -> Any:
        ctx.progress(steps, 10, "on it")
        return ctx.state

    made = Tool(work)
    context = ToolContext("call-1", {"a": 1}, lambda *progress: heard.append(progress))
    assert list(made.input_schema["properties"]) == ["steps"]
    assert call(made, {"steps": 3, "ctx": "mine"}, context) == {"a": 1}
    assert heard == [(3, 10, "on it")]


def test_a_description_may_stand_beside_the_type() -> None:
    def find(sku: Annotated[str, "As on the label."]) -> str:
        return sku

    assert Tool(find).input_schema["properties"]["sku"] == {"type": "string", "description": "As on the label."}
    assert call(Tool(find), {"sku": "a"}) == "a"


def test_positional_only_parameters_are_filled_by_name() -> None:
    def divide(a: int, b: int = 2, /, *, rest: bool = False) -> int:
        return a % b if rest else a // b

    assert call(Tool(divide), {"a": 7, "rest": True}) == 1
    assert call(Tool(divide), {"a": 7, "b": 3}) == 2


def test_methods_partials_and_callable_objects_are_tools_too() -> None:
    class Shop:
        def __init__(self, stock: int) -> None:
            self.stock = stock
            self.name = "what a shop is called is no name of a tool"

        def count(self, times: int) -> int:
            """Count."""
            return self.stock * times

        @tool
        def decorated(self, times: int) -> int:
            return self.stock * times

        async def __call__(self, times: int, ctx: ToolContext | None = None) -> int:
            return self.stock * times

    shop = Shop(2)
    assert call(Tool(shop.count), {"times": 3}) == 6
    assert call(shop.decorated, {"times": 4}) == 8
    assert list(shop.decorated.input_schema["properties"]) == ["times"]
    assert call(Tool(functools.partial(shop.count, times=3), name="thrice"), {}) == 6
    assert Tool(shop, name="shop").plain is False
    assert Tool(shop, name="shop").name == "shop"
    assert list(Tool(shop, name="shop").input_schema["properties"]) == ["times"]


def test_a_schema_of_the_callers_own_hands_over_the_arguments_as_they_are() -> None:
    schema = {"type": "object", "properties": {"any": {}}}

    def take_all(arguments: dict[str, Any], ctx: ToolContext) -> Any:
        return [arguments, ctx.call_id]

    made = Tool(take_all, input_schema=schema)
    assert made.input_schema == schema
    assert call(made, {"any": 1, "more": 2}, ToolContext("call-9")) == [{"any": 1, "more": 2}, "call-9"]


def returning(hint: Any) -> Tool:
    def made() -> Any: ...

    made.__annotations__["return"] = hint
    return Tool(made)


@pytest.mark.parametrize(
    "hint", [str, None, Any, bytes, ImageAttachment, list[ImageAttachment], list[Any], tuple[str, bytes], list]
)
def test_results_that_are_shown_as_they_are_promise_no_schema(hint: Any) -> None:
    assert returning(hint).output_schema is None


def test_results_that_are_values_promise_their_schema_wrapped_where_they_are_no_object() -> None:
    assert returning(Point).output_schema == {
        "title": "Point",
        "type": "object",
        "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
        "required": ["x"],
    }
    wrapped = returning(list[int]).output_schema
    assert wrapped is not None
    assert wrapped["properties"] == {"value": {"type": "array", "items": {"type": "integer"}}}
    content = returning(list[int]).content([1], MAX_RESULT_BYTES)
    assert (content.structured, content.value) == ({"value": [1]}, [1])


def anything(*args: Any) -> None: ...
def whatever(**options: Any) -> None: ...
def unknown(value: Unknown) -> None: ...  # type: ignore[name-defined]  # noqa: F821 - that is the point
def odd(value: Callable[[], int]) -> None: ...


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Tool(anything), r"takes any arguments \(\*args\)"),
        (lambda: Tool(whatever), r"takes any arguments \(\*options\)"),
        (lambda: Tool(unknown), "cannot be resolved.*Unknown"),
        (lambda: Tool(odd), "the parameter 'value' of the tool 'odd'"),
        (lambda: Tool(lambda: 1), "is not a name for a tool"),
        (lambda: Tool(lambda: 1, name="with space"), "is not a name for a tool"),
        (lambda: Tool(lambda: 1, name="x" * 41), "is not a name for a tool"),
        (lambda: tools_of([lambda_named, lambda_named]), "two tools have the name 'lambda_named'"),
        (lambda: tools_of(["lookup"]), "a tool is a function"),  # type: ignore[list-item]  # what is refused
        (lambda: returning(Callable[[], int]), "the result of the tool 'made'"),
    ],
)
def test_a_function_that_cannot_be_a_tool_is_refused_with_a_reason(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


def test_to_define_tools_loads_no_mcp_and_no_web_server() -> None:
    program = (
        "import sys, dragoman.evaluation.tool, dragoman.evaluation.toolbox, dragoman.evaluation.toolbox\n"
        "print([name for name in ('mcp', 'mcp_types', 'uvicorn', 'starlette', 'pydantic') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
