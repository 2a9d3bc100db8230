"""A Python function as a tool for agents: its name, its description, and the JSON Schema of its arguments and result.

    @tool
    def lookup(sku: str) -> Item:
        "Find an item in the catalogue."

The function stays a function: `lookup("A-1")` works as before. It may be plain or async, and its parameters may have
any type that `types` supports. A parameter of the type `ToolContext` is not filled by the agent: it gets the call's
context.
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

# Names that the API of every model accepts. Agents put the server's name before it (`mcp__dragoman-1a2b3c4d__`), and
# some APIs allow 64 characters.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,40}")

# Results that are shown as they are: with a schema of a text, the agent would read the text twice.
_SHOWN: Final = (inspect.Signature.empty, Any, object, None, type(None), str, bytes, ImageAttachment)


class ToolError(Exception):
    """Raised by a tool to tell the agent why it failed. The agent sees only the type of other exceptions."""


class ToolContext:
    """The call of a tool, as the tool sees it: its id, the state of the server, and a way to report progress."""

    def __init__(
        self,
        call_id: str = "",
        state: Any = None,
        report: Callable[[float, float | None, str | None], None] | None = None,
    ) -> None:
        self.call_id = call_id
        self.state = state  # the state of the server
        self._report = report

    def progress(self, done: float, total: float | None = None, message: str | None = None) -> None:
        """Report progress to the agent; `done` must grow. For async and plain functions."""
        if self._report is not None:
            self._report(done, total, message)


class Tool:
    """A function with its name, description and schemas, as the agent sees them."""

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
        self.name = _check_name(name if name is not None else getattr(function, "__name__", ""))
        self.description = description if description is not None else inspect.getdoc(function) or ""
        self.read_only = read_only
        self.plain = not _is_async(function)
        signature = _signature(self.name, function)
        self._context = [name for name, each in signature.parameters.items() if _is_context(each.annotation)]
        self._takes_dict = input_schema is not None
        self._parameters = {} if self._takes_dict else _parameters_of(self.name, signature, self._context)
        self.input_schema = input_schema if input_schema is not None else _schema_of(self.name, self._parameters)
        self._returns = _result_shape(self.name, signature.return_annotation)
        functools.update_wrapper(self, function, updated=())  # its own attributes may have the names of ours

    @property
    def output_schema(self) -> Schema | None:
        """The schema of a result that is more than text or pictures; a list or a number is wrapped: {"value": …}."""
        return None if self._returns is None else self._returns.object_schema

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object | None, owner: type | None = None) -> Tool:
        """Return the tool of an object, for a decorated method."""
        if instance is None:
            return self
        method = self.function.__get__(instance, owner)
        schema = self.input_schema if self._takes_dict else None
        return type(self)(
            method, name=self.name, description=self.description, read_only=self.read_only, input_schema=schema
        )

    def __repr__(self) -> str:
        return f"<Tool {self.name}>"

    def bound(self, arguments: Any, context: ToolContext) -> Callable[[], Any]:
        """Return the function with its decoded arguments. `Invalid` lists all problems with their paths."""
        if not isinstance(arguments, dict):
            raise Invalid([Problem((), "the arguments are not an object")])
        call: Callable[..., Any] = self.function
        by_name = dict.fromkeys(self._context, context)
        if self._takes_dict:
            return functools.partial(call, arguments, **by_name)
        before: list[Any] = []
        problems: list[Problem] = []
        named: dict[str, Any] = dict(by_name)
        for name, (parameter, shape) in self._parameters.items():
            if name in arguments:
                value = _decode_argument(name, shape, arguments[name], problems)
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
        """Return the result as the agent sees it."""
        return content_of(result, self._returns, max_bytes)


class FunctionTool(Tool, Generic[_P, _R]):
    """A tool with the type of its function, for type checkers."""

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
    """Make a function a tool: `@tool`, or `@tool(name=…, read_only=True)`. The agent reads its docstring."""

    def make(function: Callable[_P, _R]) -> FunctionTool[_P, _R]:
        return FunctionTool(function, name=name, description=description, read_only=read_only)

    return make if function is None else make(function)


def tools_of(functions: Iterable[Tool | Callable[..., Any]]) -> dict[str, Tool]:
    """Return the tools by name; a plain function becomes one."""
    tools: dict[str, Tool] = {}
    for each in functions:
        if not callable(each):
            raise InputError(f"a tool is a function; got {each!r}")
        new_tool = each if isinstance(each, Tool) else Tool(each)
        if new_tool.name in tools:
            raise InputError(f"two tools have the name {new_tool.name!r}", guidance="Give one another: @tool(name='…')")
        tools[new_tool.name] = new_tool
    return tools


def _check_name(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a name for a tool: use letters, digits, _ and -, at most 40",
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
    except NameError as error:
        raise InputError(
            f"the tool {name!r} has a type hint that cannot be resolved: {error}",
            guidance="Define that type at the top of the module, or do without `from __future__ import annotations`.",
        ) from error
    except (TypeError, ValueError) as error:
        raise InputError(f"the tool {name!r} has no signature: {error}") from error


def _is_context(annotation: Any) -> bool:
    if isinstance(annotation, type) and issubclass(annotation, ToolContext):
        return True
    return any(_is_context(each) for each in get_args(annotation))  # `ToolContext | None`


def _parameters_of(
    tool_name: str, signature: inspect.Signature, context: list[str]
) -> dict[str, tuple[inspect.Parameter, Shape]]:
    """Return the parameters that the agent fills in."""
    parameters: dict[str, tuple[inspect.Parameter, Shape]] = {}
    for name, parameter in signature.parameters.items():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise InputError(
                f"the tool {tool_name!r} takes any arguments (*{name}); an agent must know which",
                guidance="Name them, or pass input_schema to Tool(…) for a function that takes one dict.",
            )
        if name in context:
            continue
        try:
            annotation = Any if parameter.annotation is parameter.empty else parameter.annotation
            parameters[name] = parameter, shape_of(annotation)
        except InputError as error:
            raise InputError(
                f"the parameter {name!r} of the tool {tool_name!r}: {error}", guidance=error.guidance
            ) from error
    return parameters


def _schema_of(tool_name: str, parameters: dict[str, tuple[inspect.Parameter, Shape]]) -> Schema:
    required = [name for name, (parameter, _) in parameters.items() if parameter.default is parameter.empty]
    schema = object_schema({name: shape for name, (_, shape) in parameters.items()}, required)
    for name, (parameter, _) in parameters.items():
        annotations: Schema = {}
        if (words := _description_of(parameter.annotation)) is not None:
            annotations["description"] = words
        if parameter.default is not parameter.empty:
            try:
                annotations["default"] = encode(parameter.default)
            except InputError:
                pass  # a default that JSON cannot express: the agent only learns that the argument is optional
        schema["properties"][name] = {**schema["properties"][name], **annotations}
    return schema


def _description_of(annotation: Any) -> str | None:
    """Return the text of `Annotated[str, "text"]`."""
    if get_origin(annotation) is not Annotated:
        return None
    return next((each for each in get_args(annotation)[1:] if isinstance(each, str)), None)


def _result_shape(tool_name: str, annotation: Any) -> Shape | None:
    if annotation in _SHOWN or _mentions_pictures(annotation):
        return None
    try:
        return shape_of(annotation)
    except InputError as error:
        raise InputError(f"the result of the tool {tool_name!r}: {error}", guidance=error.guidance) from error


def _mentions_pictures(annotation: Any) -> bool:
    """Return whether a result may be an image (also of a library that can save it), or a list with images."""
    if annotation in (bytes, ImageAttachment, list, tuple) or (
        isinstance(annotation, type) and hasattr(annotation, "save")
    ):
        return True
    if get_origin(annotation) in (list, tuple) and any(each in (Any, object) for each in get_args(annotation)):
        return True
    return any(_mentions_pictures(each) for each in get_args(annotation))


def _decode_argument(name: str, shape: Shape, value: Any, problems: list[Problem]) -> Any:
    try:
        return shape.decode(value)
    except Invalid as error:
        problems.extend(Problem((name, *each.path), each.message) for each in error.problems)
        return None


def load_tools(where: str, *, folder: Path | None = None) -> tuple[Tool, ...]:
    """Load tools from `module`, `module:NAME` or `file.py:NAME`; modules are first searched in `folder`."""
    name, colon, attribute = where.rpartition(":") if ":" in where else (where, "", "")
    module = _module(name, folder)
    if not colon:
        tools = [value for value in vars(module).values() if isinstance(value, Tool)]
        if not tools:
            raise InputError(
                f"{name} defines no tool", guidance=f"Put @dragoman.tool before a function, or say {name}:NAME."
            )
        return tuple(tools)
    try:
        value: Any = module
        for part in attribute.split("."):
            value = getattr(value, part)
    except AttributeError:
        raise InputError(f"{name} has no {attribute!r}") from None
    return tuple(_to_tool(each, where) for each in _several(value))


def _several(value: Any) -> Iterable[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _to_tool(value: Any, where: str) -> Tool:
    if isinstance(value, Tool):
        return value
    if not callable(value) or isinstance(value, type):
        raise InputError(f"{where} is {value!r}; expected a function, a tool, or a list of these")
    new_tool: Tool = tool(value)
    return new_tool


def _module(name: str, folder: Path | None) -> ModuleType:
    try:
        if name.endswith(".py"):
            return _module_of_file((folder or Path()) / name)
        if folder is not None and str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        return importlib.import_module(name)
    except InputError:
        raise
    except Exception as error:
        # The module is the caller's code, and may raise anything.
        raise InputError(f"{name} cannot be loaded: {type(error).__name__}: {error}") from error


def _module_of_file(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise InputError(f"there is no file {path}")
    loaded = sys.modules.get(path.stem)
    if loaded is not None and getattr(loaded, "__file__", None) == spec.origin:
        return loaded  # run once, so that all its tools share its state
    module = importlib.util.module_from_spec(spec)
    sys.modules.setdefault(path.stem, module)  # for pickling classes and resolving hints by name
    spec.loader.exec_module(module)
    return module
