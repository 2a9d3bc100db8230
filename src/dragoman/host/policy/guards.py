"""Guards: files that other programs run or obey, and files that hold secrets. Dragoman asks before the first are
written and the second are read, whatever rule allows it, unless the access is `full`.

The built-in lists are data (`guards.toml`, which describes its own format). The user changes them in `config.toml`:

    [guards]
    write = ["deploy/*.sh"]               # asked about before they are written, beside the built-in ones
    read = ["customers"]                  # the same, before they are read
    without = [".vscode", ".env.test"]    # not asked about, though the built-in lists have them

The folder `.dragoman` stays guarded, since it holds the rules themselves.
"""

from __future__ import annotations

import tomllib
import unicodedata
from collections.abc import Iterator, Sequence
from functools import lru_cache
from importlib import resources
from pathlib import PurePath
from typing import Final

import msgspec

from dragoman.config import Config
from dragoman.document import KeyPath, kind
from dragoman.host.policy.globs import ResolvedPath, escaped, fold, name_matches, path_matches

_KEYS: Final = ("write", "read", "without")
_BY_USER: Final = "you added it to [guards] in config.toml"
_ALWAYS_GUARDED: Final = ".dragoman"


class Guard(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Paths of one kind; `guards.toml` explains the fields."""

    reason: str
    paths: tuple[str, ...]
    exceptions: tuple[str, ...] = msgspec.field(default=(), name="except")


class Guards(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files that are asked about before they are written, and before they are read."""

    write: tuple[Guard, ...] = ()
    read: tuple[Guard, ...] = ()

    def reason_to_ask_before_write(self, path: ResolvedPath) -> str | None:
        """Return the reason why writing this file always needs an answer; None where it does not."""
        return _reason(self.write, path)

    def reason_to_ask_before_read(self, path: ResolvedPath) -> str | None:
        """Return the reason why reading this file always needs an answer; None where it does not."""
        return _reason(self.read, path)


@lru_cache(maxsize=1)
def default_guards() -> Guards:
    """Return the built-in guards, which are read at the first call."""
    text = (resources.files("dragoman.host.policy") / "guards.toml").read_text(encoding="utf-8")
    return msgspec.convert(tomllib.loads(text), Guards)


def user_guards(config: Config) -> Guards | None:
    """Return the built-in guards with the user's changes; None where there are none. `ConfigError` for invalid ones."""
    if not config.guards:
        return None
    key_path = config.key_path("guards")
    added: dict[str, tuple[str, ...]] = dict.fromkeys(_KEYS, ())
    for key, value in config.guards.items():
        if key not in _KEYS:
            raise (key_path / key).unknown(key, _KEYS)
        added[key] = _read_patterns(key_path / key, key, value)
    without = frozenset(added["without"])
    defaults = default_guards()
    return Guards(
        write=(*_without(defaults.write, without), *_of_user(added["write"])),
        read=(*_without(defaults.read, without), *_of_user(added["read"])),
    )


def _read_patterns(key_path: KeyPath, key: str, value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(each, str) and each.strip("/ ") for each in value):
        raise key_path.wrong(key, kind(value), 'an array of names, as in [".vscode", "deploy/*.sh"]')
    for pattern in value:
        if ".." in pattern.split("/"):
            raise key_path.wrong(key, f'"{pattern}"', "names without `..` (from outside: /… or ~/…)")
    return tuple(value)


def _of_user(paths: tuple[str, ...]) -> tuple[Guard, ...]:
    return (Guard(_BY_USER, paths),) if paths else ()


def _without(guards: Sequence[Guard], names: frozenset[str]) -> Iterator[Guard]:
    """Yield the guards without these paths, and with those of the names that a path covers as exceptions."""
    for guard in guards:
        if _ALWAYS_GUARDED in guard.paths:
            yield guard
        else:
            paths = tuple(path for path in guard.paths if path not in names)
            yield Guard(guard.reason, paths, (*guard.exceptions, *sorted(names)))


# Matching


def _reason(guards: Sequence[Guard], path: ResolvedPath) -> str | None:
    for text in _texts(path):
        parts = _parts(text)
        for guard in guards:
            if _covers(guard.paths, parts, path) and not _covers(guard.exceptions, parts, path, contents_only=True):
                return guard.reason
    return None


def _texts(path: ResolvedPath) -> tuple[str, ...]:
    """Return the path with links resolved and as it was written.

    Inside the workspace only the part below its folder counts: the folders above it are the person's choice.
    """
    if path.inside is not None:
        return tuple(dict.fromkeys((path.inside, *(text for text in path.spellings if not text.startswith("/")))))
    return tuple(dict.fromkeys((path.real or path.given, *path.spellings)))


class _Index(msgspec.Struct, frozen=True):
    """Patterns, divided into names: by the first name, with a wildcard in the first name, and all others."""

    by_name: dict[str, list[tuple[str, ...]]]
    wildcards: list[tuple[str, ...]]
    others: list[str]


@lru_cache(maxsize=256)
def _index(patterns: tuple[str, ...]) -> _Index:
    index = _Index({}, [], [])
    for pattern in patterns:
        names = pattern.removeprefix("**/").removesuffix("/**")
        if pattern.startswith(("/", "~/")) or "**" in names:
            index.others.append(pattern)
            continue
        wanted = tuple(fold(name) for name in names.split("/") if name)
        if escaped(wanted[0]) == wanted[0]:
            index.by_name.setdefault(wanted[0], []).append(wanted)
        else:
            index.wildcards.append(wanted)
    return index


def _covers(
    patterns: tuple[str, ...], parts: Sequence[str], path: ResolvedPath, *, contents_only: bool = False
) -> bool:
    """Tell whether the path is such a file, is in such a folder, or is a folder above, whose change would change it.

    With `contents_only` folders above do not count.
    """
    index = _index(patterns)
    for start, name in enumerate(parts):
        for wanted in (*index.by_name.get(name, ()), *index.wildcards):
            following = parts[start : start + len(wanted)]
            if not (contents_only and len(following) < len(wanted)) and all(map(name_matches, wanted, following)):
                return True
    return any(path_matches(pattern, path, wide=True) for pattern in index.others)


@lru_cache(maxsize=4096)
def _parts(text: str) -> tuple[str, ...]:
    """Return the names of a path as careless file systems see them.

    macOS ignores case and invisible characters; Windows ignores dots and blanks at the end and everything after a
    colon.
    """
    names = []
    for part in PurePath(text).parts:
        visible = "".join(each for each in part if unicodedata.category(each) != "Cf").partition(":")[0]
        names.append(fold(visible.rstrip(". ")))
    return tuple(names)
