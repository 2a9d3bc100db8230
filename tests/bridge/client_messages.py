"""Messages that a client may send on the socket, right and wrong, made from their types."""

from __future__ import annotations

import types
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
from hypothesis import strategies as st

from dragoman.protocol import requests

CONTROLS: tuple[type[requests.FromClient], ...] = get_args(requests.FROM_CLIENT)
ATTACHMENTS: tuple[type[msgspec.Struct], ...] = get_args(requests.Attachment)

# Numbers that are too large for something: an index, a column of a database, a float.
HUGE = (2**31, 2**63, 2**64, 10**30, 10**400, -1, -(2**63) - 1, 1e308, 0)

# Texts that mean something to someone: a path, a shell, a database, a search, a terminal, a cursor, a regex.
ODD = (
    "", " ", "\0", "a\0b", "\ud800", "\udfff\ud800", "\x1b]0;x\x07\x1b[2J", "\u202e", "\n\r\t",
    "'; DROP TABLE sessions;--", '"', "..", "../../../etc/passwd", "/etc/passwd", "/", "~", "~root", "/dev/zero",
    "/proc/self/environ", "//", ".", "C:\\", "file:///etc/passwd", "-", "-rf", "--help", "%00", "%s%n", "{}", "$(id)",
    "*", "NEAR(", '"*', "a" * 5000, "é" * 2000, "9" * 5000, "٣", "²", "1e400", "NaN", "null", "true", "(a+)+$", "[",
    "\\", "https://127.0.0.1:1/", "ws://127.0.0.1:1/", "s1/t1", "/t1", "r.1", "x.99999999999999999999999999",
)  # fmt: skip

_junk: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.sampled_from(HUGE), st.sampled_from(ODD), st.floats(allow_nan=False), st.text()
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.one_of(st.text(), st.sampled_from(ODD)), inner, max_size=4)
    ),
    max_leaves=8,
)


def fitting(kind: Any, known: dict[str, tuple[str, ...]], name: str = "") -> st.SearchStrategy[Any]:
    """Values of a type, odd ones included; for a field with this name, `known` ones too."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Literal:
        return st.sampled_from(arguments)
    if origin in (Union, types.UnionType):
        return st.one_of(*(fitting(one, known, name) for one in arguments))
    if origin is tuple:
        return st.lists(fitting(arguments[0], known, name), max_size=3)
    if origin is dict:
        return st.dictionaries(st.one_of(st.text(), st.sampled_from(ODD)), fitting(arguments[1], known), max_size=3)
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return whole(kind, known)
    texts = st.one_of(st.sampled_from(ODD), st.text(max_size=30))
    return {
        str: st.one_of(st.sampled_from(known[name]), texts) if name in known else texts,
        int: st.one_of(st.integers(0, 100), st.sampled_from([one for one in HUGE if isinstance(one, int)])),
        float: st.one_of(st.floats(allow_nan=False, allow_infinity=False), st.sampled_from(HUGE)),
        bool: st.booleans(),
        type(None): st.none(),
    }.get(kind, _junk)


def whole(kind: type[msgspec.Struct], known: dict[str, tuple[str, ...]]) -> st.SearchStrategy[dict[str, Any]]:
    """Of the right shape; fields that need not be there are there or not."""
    hints = get_type_hints(kind)
    needed: dict[str, st.SearchStrategy[Any]] = {}
    free: dict[str, st.SearchStrategy[Any]] = {}
    for field in msgspec.structs.fields(kind):
        value = fitting(hints[field.name], known, field.name)
        (needed if field.required else free)[field.encode_name] = value
    needed[str(kind.__struct_config__.tag_field)] = st.just(kind.__struct_config__.tag)
    return st.fixed_dictionaries(needed, optional=free)


@st.composite
def damaged(draw: st.DrawFn, known: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Nearly of the right shape: a field is missing, of another type, or one too many."""
    message = dict(draw(whole(draw(st.sampled_from(CONTROLS)), known)))
    name = draw(st.sampled_from([*message, "more"]))
    if draw(st.booleans()) and name in message:
        del message[name]
    else:
        message[name] = draw(_junk)
    return message
