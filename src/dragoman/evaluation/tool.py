"""A Python function as a tool for agents: its name, what it does, the JSON Schema of what it takes and returns.

    @tool
    def lookup(sku: str) -> Item:
        "Find an item in the catalogue."

The function stays a function: `lookup("A-1")` works as before. It may be plain or async, and its parameters may have
any type that `types` knows. A parameter of the type `Context` is not the agent's to fill: it gets the call's context.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final, Generic, ParamSpec, TypeVar, get_args, get_origin, overload

from dragoman.errors import InputError
from dragoman.evaluation.content import Content, content_of
from dragoman.evaluation.types import Invalid, Problem, Schema, Shape, encode, object_schema, shape_of
from dragoman.session.prompt import ImageAttachment

_P = ParamSpec("_P")
_R = TypeVar("_R")

# What every model's API takes for a name. Agents put the server's before it (`mcp__dragoman-1a2b3c4d__`), and some of
# those APIs stop at 64.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

# Results that are shown as they are: to say that a text is a text would only make the agent read it twice.
_SHOWN: Final = (inspect.Signature.empty, Any, object, None, type(None), str, bytes, ImageAttachment)


class ToolError(Exception):
    """Raised by a tool to tell the agent why it failed. Of other exceptions the agent sees only the type."""


class ToolContext:
    """The call of a tool, as the tool sees it: its id and arguments, and a way to report progress."""

    def __init__(
        self,
        call_id: str = "",
        state: Any = None,
        report: Callable[[float, float | None, str | None], None] | None = None,
    ) -> None:
        self.call_id = call_id
        self.state = state  # what the server was given
        self._report = report

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the agent how far it is; `done` has to grow. For async and plain functions alike."""
        if self._report is not None:
            self._report(done, total, message)


class Tool:
    """A function with the name, the description and the schemas that an agent gets of it."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        description: str | None = None,
        read_only: bool = False,
        input_schema: Schema | None = None,
    ) -> None:
        """`input_schema` is for a function that takes the arguments as one dict, as the agent sent them.

        `read_only` says that it changes nothing: agents may ask less, and a call of it may be repeated.
        """
        self.function = function
        self.name = _checked_name(name if name is not None else getattr(function, "__name__", ""))
        self.description = description if description is not None else inspect.getdoc(function) or ""
        self.read_only = read_only
        self.plain = not _is_async(function)
        signature = _signature(self.name, function)
        self._context = [name for name, each in signature.parameters.items() if _is_context(each.annotation)]
        self._whole = input_schema is not None
        self._given = {} if self._whole else _given(self.name, signature, self._context)
        self.input_schema = input_schema if input_schema is not None else _schema_of(self.name, self._given)
        self._returns = _returned(self.name, signature.return_annotation)
        functools.update_wrapper(self, function, updated=())  # its own attributes may have the names of ours

    @property
    def output_schema(self) -> Schema | None:
        """Of a result that is more than text or pictures; a list or a number is wrapped: {"value": …}."""
        return None if self._returns is None else self._returns.object_schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Tool:
        """A decorated method: of an object it is that object's tool."""
        if instance is None:
            return self
        method = self.function.__get__(instance, owner)
        schema = self.input_schema if self._whole else None
        return type(self)(
            method, name=self.name, description=self.description, read_only=self.read_only, input_schema=schema
        )

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def bound(self, arguments: Any, context: ToolContext) -> Callable[[], Any]:
        """The function with its arguments, decoded. `Invalid` says all that is wrong with them, and where."""
        if not isinstance(arguments, dict):
            raise Invalid([Problem((), "the arguments are no object")])
        call: Callable[..., Any] = self.function
        by_name = dict.fromkeys(self._context, context)
        if self._whole:
            return functools.partial(call, arguments, **by_name)
        before: list[Any] = []
        problems: list[Problem] = []
        named: dict[str, Any] = dict(by_name)
        for name, (parameter, shape) in self._given.items():
            if name in arguments:
                value = _decoded(name, shape, arguments[name], problems)
            elif parameter.default is not parameter.empty:
                value = parameter.default
            else:
                problems.append(Problem((), f"the argument {name!r} is missing"))
                continue
            if parameter.kind is parameter.POSITIONAL_ONLY:
                before.append(value)
            else:
                named[name] = value
        if problems:
            raise Invalid(problems)
        return functools.partial(call, *before, **named)

    def content(self, result: Any, max_bytes: int) -> Content:
        """The result as the agent is shown it."""
        return content_of(result, self._returns, max_bytes)


class FunctionTool(Tool, Generic[_P, _R]):
    """A tool that type checkers know as the function that it is."""

    function: Callable[_P, _R]

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        return self.function(*args, **kwargs)


@overload
def tool(function: Callable[_P, _R], /) -> FunctionTool[_P, _R]: ...
@overload
def tool(
    *, name: str | None = None, description: str | None = None, read_only: bool = False
) -> Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]: ...
def tool(
    function: Callable[_P, _R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    read_only: bool = False,
) -> FunctionTool[_P, _R] | Callable[[Callable[_P, _R]], FunctionTool[_P, _R]]:
    """Makes a function a tool: `@tool`, or `@tool(name=…, read_only=True)`. Its docstring is what the agent reads."""

    def make(function: Callable[_P, _R]) -> FunctionTool[_P, _R]:
        return FunctionTool(function, name=name, description=description, read_only=read_only)

    return make if function is None else make(function)


def tools_of(given: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Tools by name; a function that is none yet becomes one."""
    found: dict[str, Tool] = {}
    for each in given:
        if not callable(each):
            raise InputError(f"a tool is a function; got {each!r}")
        made = each if isinstance(each, Tool) else Tool(each)
        if made.name in found:
            raise InputError(f"two tools have the name {made.name!r}", guidance="Give one another: @tool(name='…')")
        found[made.name] = made
    return found


def _checked_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is no name for a tool: letters, digits, _ and -, at most 40",
            guidance="Give it one: @tool(name='…')",
        )
    return name


def _is_async(function: Callable[..., Any]) -> bool:
    inner: Any = function
    while isinstance(inner, functools.partial):
        inner = inner.func
    return inspect.iscoroutinefunction(inner) or inspect.iscoroutinefunction(getattr(inner, "__call__", None))  # noqa: B004 - of an object that is called like a function


def _signature(name: str, function: Callable[..., Any]) -> inspect.Signature:
    try:
        return inspect.signature(function, eval_str=True)
    except NameError as problem:
        raise InputError(
            f"the tool {name!r} has a type hint that is not known where it stands: {problem}",
            guidance="Define that type at the top of the module, or do without `from __future__ import annotations`.",
        ) from problem
    except (TypeError, ValueError) as problem:
        raise InputError(f"the tool {name!r} does not say what it takes: {problem}") from problem


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, ToolContext):
        return True
    return any(_is_context(each) for each in get_args(annotation))  # `Context | None`


def _given(
    tool_name: str, signature: inspect.Signature, context: list[str]
) -> dict[str, tuple[inspect.Parameter, Shape]]:
    """Return the parameters that the agent fills in."""
    given: dict[str, tuple[inspect.Parameter, Shape]] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InputError(
                f"the tool {tool_name!r} takes any arguments (*{name}); an agent has to be annotations which",
                guidance="Name them, or pass input_schema to Tool(…) for a function that takes one dict.",
            )
        if name in context:
            continue
        try:
            given[name] = parameter, shape_of(Any if parameter.annotation is parameter.empty else parameter.annotation)
        except InputError as problem:
            raise InputError(
                f"the parameter {name!r} of the tool {tool_name!r}: {problem}", guidance=problem.guidance
            ) from problem
    return given


def _schema_of(tool_name: str, given: dict[str, tuple[inspect.Parameter, Shape]]) -> Schema:
    required = [name for name, (parameter, _) in given.items() if parameter.default is parameter.empty]
    schema = object_schema({name: shape for name, (_, shape) in given.items()}, required)
    for name, (parameter, _) in given.items():
        annotations: Schema = {}
        if (words := _described(parameter.annotation)) is not None:
            annotations["description"] = words
        if parameter.default is not parameter.empty:
            try:
                annotations["default"] = encode(parameter.default)
            except InputError:
                pass  # it has one, which is not for JSON: the argument is optional, and that is all there is to say
        schema["properties"][name] = {**schema["properties"][name], **annotations}
    return schema


def _described(annotation: Any) -> str | None:
    """`Annotated[str, "what it is"]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((each for each in get_args(annotation)[1:] if isinstance(each, str)), None)


def _returned(tool_name: str, annotation: Any) -> Shape | None:
    if annotation in _SHOWN or _mentions_pictures(annotation):
        return None
    try:
        return shape_of(annotation)
    except InputError as problem:
        raise InputError(f"the result of the tool {tool_name!r}: {problem}", guidance=problem.guidance) from problem


def _mentions_pictures(annotation: Any) -> bool:
    """An image, also of a library that can save it, or a list that may have some."""
    if annotation in (bytes, ImageAttachment, list, tuple) or (
        isinstance(annotation, type) and hasattr(annotation, "save")
    ):
        return True
    if get_origin(annotation) in (list, tuple) and any(each in (Any, object) for each in get_args(annotation)):
        return True
    return any(_mentions_pictures(each) for each in get_args(annotation))


def _decoded(name: str, shape: Shape, value: Any, problems: list[Problem]) -> Any:
    try:
        return shape.decode(value)
    except Invalid as problem:
        problems.extend(Problem((name, *each.path), each.message) for each in problem.problems)
        return None


def load_tools(where: str, *, folder: Path | None = None) -> tuple[Tool, ...]:
    """`folder` is where modules are looked for first. `InputError` says what is not there."""
    name, colon, wanted = where.rpartition(":") if ":" in where else (where, "", "")
    module = _module(name, folder)
    if not colon:
        found = [value for value in vars(module).values() if isinstance(value, Tool)]
        if not found:
            raise InputError(
                f"{name} defines no tool", guidance=f"Put @dragoman.tool before a function, or say {name}:NAME."
            )
        return tuple(found)
    try:
        value: Any = module
        for part in wanted.split("."):
            value = getattr(value, part)
    except AttributeError:
        raise InputError(f"{name} has no {wanted!r}") from None
    return tuple(_made(each, where) for each in _several(value))


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _made(value: Any, where: str) -> Tool:
    if isinstance(value, Tool):
        return value
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{where} is {value!r}; expected a function, a tool, or a list of these")
    made: Tool = tool(value)
    return made


def _module(name: str, folder: Path | None) -> ModuleType:
    try:
        if name.endswith(".py"):
            return _of_file((folder or Path()) / name)
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        return importlib.import_module(name)
    except InputError:
        raise
    except Exception as problem:
        # Whatever the module does when it is loaded is the caller's; where it fails, that is what went wrong.
        raise InputError(f"{name} cannot be loaded: {type(problem).__name__}: {problem}") from problem


def _of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"there is no file {path}")
    known = sys.modules.get(path.stem)
    if known is not None and getattr(known, "__file__", None) == spec.origin:
        return known  # run once, however many of its names are asked for: they share its state
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # where classes are pickled, or hints looked up, by name
    spec.loader.exec_module(module)
    return module
