"""Tools by name: `module:function`, `module:list`, `file.py:name`, or `module` for all tools that it defines."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Iterable
from pathlib import Path
from types import ModuleType
from typing import Any

from dragoman.errors import InputError
from dragoman.evaluation.tool import Tool, tool


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
