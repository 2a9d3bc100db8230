"""A value of any of our types, with every field said or only those that must be."""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from dragoman.wire import vocabulary
from dragoman.wire.vocabulary import WireStruct

# Where any text will not do.
TEXTS = {"type": None, "kind": "other", "category": "model", "status": "completed"}


def structs() -> list[type[WireStruct]]:
    """All types of the vocabulary that can be said."""
    return [
        found
        for name, found in vars(vocabulary).items()
        if isinstance(found, type)
        and issubclass(found, WireStruct)
        and found is not WireStruct
        and found.__name__ == name  # not an alias
        and not name.startswith("Other")  # kinds that we do not know are not said
    ]


def sample(struct: type[WireStruct], *, full: bool) -> WireStruct:
    hints = get_type_hints(struct, vars(vocabulary))
    given = {}
    for field in msgspec.structs.fields(struct):
        if field.required or (full and field.name not in ("meta", "type")):
            given[field.name] = _value(hints[field.name], full=full, name=field.name)
        elif full and field.name == "meta":
            given[field.name] = {"vendor": {"key": 1}}
    return struct(**given)


def _value(hint: Any, *, full: bool, name: str) -> Any:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        wanted = [one for one in arguments if one not in (type(None), msgspec.UnsetType)]
        return _value(wanted[0], full=full, name=name)
    if origin is Literal:
        return arguments[0]
    if origin is tuple:
        return (_value(arguments[0], full=full, name=name),)
    if origin is dict:
        return {"key": _value(arguments[1], full=full, name=name)}
    if isinstance(hint, type) and issubclass(hint, WireStruct):
        return sample(hint, full=full)
    if hint is str:
        return TEXTS.get(name) or f"some {name}"
    return {bool: True, int: 7, float: 0.5, Any: {"any": [1, None]}}[hint]
