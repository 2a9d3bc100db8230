"""Saved sessions: one JSON file each, so that another process can list, load, resume and fork them.

Promised: a file is whole or not there (written beside, then renamed), for its owner alone; a name that is not one of
our ids never becomes a path. The folder is made when something is first saved.
"""

from __future__ import annotations

import binascii
import os
import re
from collections.abc import Mapping
from pathlib import Path

import msgspec

# Every `dragoman run` on the demo agent leaves a session; this many are plenty to try `list` and `load` on.
MAX_SAVED_SESSIONS = 500

_ID = re.compile(r"demo-[0-9a-f]{16}")


class SavedSessionHead(msgspec.Struct, frozen=True, kw_only=True):
    """The fields that `session/list` needs: decoding only these skips the history."""

    id: str
    cwd: str
    additional_directories: tuple[str, ...] = ()
    title: str | None = None
    updated_at: str


class SavedSession(SavedSessionHead, frozen=True, kw_only=True):
    """A session as it lies on disk. `history` are the updates that a load replays, as they were sent."""

    mode: str
    values: dict[str, str | bool] = {}
    words: int = 0
    history: list[msgspec.Raw] = []


class BadCursor(ValueError):
    """A cursor that `page` did not hand out."""


class UnreadableSession(ValueError):
    """A saved file that is not what we write."""


def new_id() -> str:
    return f"demo-{os.urandom(8).hex()}"


def store_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder in which sessions are saved."""
    if chosen := environ.get("DRAGOMAN_DEMO_HOME"):
        return Path(chosen).absolute()
    if chosen := environ.get("DRAGOMAN_HOME"):
        return Path(chosen).expanduser().absolute() / "demo"
    return Path.home() / ".dragoman" / "demo"


class SessionStore:
    def __init__(self, home: Path) -> None:
        self.home = home

    def save(self, session: SavedSession) -> None:
        path = self._path(session.id)
        assert path is not None, "ids come from new_id or from a saved file"
        for folder in (self.home.parent, self.home):  # the mode is the last folder's alone, and both are private
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # The process id keeps two processes that hold the same session from writing into one draft.
        draft = path.with_suffix(f".{os.getpid()}.new")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "wb") as file:
            file.write(msgspec.json.encode(session))
        draft.replace(path)

    def save_again(self, session: SavedSession) -> None:
        """Save a session again; one that was deleted meanwhile, here or by another process, stays deleted."""
        path = self._path(session.id)
        if path is not None and path.exists():
            self.save(session)

    def load(self, session_id: str) -> SavedSession | None:
        """Return the saved session; None where there is none of that id."""
        path = self._path(session_id)
        try:
            return None if path is None else msgspec.json.decode(path.read_bytes(), type=SavedSession)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise UnreadableSession(f"{path} cannot be read: {error}") from None

    def delete(self, session_id: str) -> bool:
        """Delete a saved session; return whether there was one."""
        path = self._path(session_id)
        try:
            if path is not None:
                path.unlink()
            return path is not None
        except FileNotFoundError:
            return False

    def page(self, *, cwd: str | None, cursor: str | None, size: int) -> tuple[list[SavedSessionHead], str | None]:
        """Return a page of the saved sessions, latest first, and the cursor of the next page.

        A cursor says behind which session the page starts, so that sessions saved meanwhile shift nothing.
        """
        after = None if cursor is None else _read_cursor(cursor)
        heads = [head for head in self._heads() if cwd is None or head.cwd == cwd]
        heads.sort(key=_order, reverse=True)
        if after is not None:
            heads = [head for head in heads if _order(head) < after]
        page = heads[:size]
        return page, _cursor(page[-1]) if len(heads) > size else None

    def prune(self) -> None:
        """Delete the oldest sessions beyond `MAX_SAVED_SESSIONS`."""
        files = list(self.home.glob("demo-*.json"))
        if len(files) <= MAX_SAVED_SESSIONS:
            return
        try:
            files.sort(key=lambda path: path.stat().st_mtime)
        except FileNotFoundError:
            return  # another process is deleting too
        for path in files[:-MAX_SAVED_SESSIONS]:
            path.unlink(missing_ok=True)

    def _heads(self) -> list[SavedSessionHead]:
        heads = []
        for path in self.home.glob("demo-*.json"):
            try:
                heads.append(msgspec.json.decode(path.read_bytes(), type=SavedSessionHead))
            except (FileNotFoundError, msgspec.MsgspecError):
                continue  # deleted meanwhile, or not ours: a list shows what can be loaded
        return heads

    def _path(self, session_id: str) -> Path | None:
        return self.home / f"{session_id}.json" if _ID.fullmatch(session_id) else None


def _order(head: SavedSessionHead) -> tuple[str, str]:
    return head.updated_at, head.id


def _cursor(head: SavedSessionHead) -> str:
    return msgspec.json.encode(_order(head)).hex()


def _read_cursor(cursor: str) -> tuple[str, str]:
    try:
        return msgspec.json.decode(binascii.unhexlify(cursor), type=tuple[str, str])
    except (ValueError, msgspec.MsgspecError):
        raise BadCursor(f"{cursor!r} is not a cursor of this agent; leave it out to start from the beginning") from None
