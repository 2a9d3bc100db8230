"""Lists of sessions: find a session by the beginning of its id, name it, and tell sub-agents from the others. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Protocol, TypeVar

import msgspec

from dragoman.errors import InputError
from dragoman.journal.rows import Session

LATEST: Final = "-"
"""Stands for the latest session where an id is expected."""

# Characters of an id that are shown at least, so that an id noted down still works when there are more sessions.
MIN_ID_CHARACTERS: Final = 6

# Characters of the original's name in the title of a fork: a title is a line in a list.
MAX_FORK_TITLE_CHARACTERS: Final = 100

# Sessions that an error lists when an id could mean several, and characters of each name.
_LISTED_SESSIONS: Final = 5
_LISTED_NAME_CHARACTERS: Final = 40


def find_session(sessions: Sequence[Session], id_or_prefix: str) -> Session:
    """Return the session with this id of ours or of the agent's, or with an id that begins so.

    `sessions` come with the latest first. Raises `InputError` where there is none, or more than one.
    """
    if not sessions:
        raise InputError("there are no sessions yet", guidance='Begin with: dragoman run "hello"')
    if id_or_prefix == LATEST:
        return next(iter(top_level(sessions)), sessions[0])
    matches = [session for session in sessions if id_or_prefix in (session.id, session.agent_session_id)] or [
        session
        for session in sessions
        if session.id.startswith(id_or_prefix) or session.agent_session_id.startswith(id_or_prefix)
    ]
    if not matches or not id_or_prefix:
        raise InputError(
            f'no session has an id that begins with "{id_or_prefix}"',
            guidance="`dragoman sessions list` shows the ids; `-` means the latest session.",
        )
    if len(matches) > 1:
        ids = short_ids(sessions)
        names = [
            f"{ids[session.id]} ({' '.join(session_name(session).split())[:_LISTED_NAME_CHARACTERS]})"
            for session in matches[:_LISTED_SESSIONS]
        ]
        more = f" and {len(matches) - _LISTED_SESSIONS} more" if len(matches) > _LISTED_SESSIONS else ""
        raise InputError(
            f'{len(matches)} sessions have an id that begins with "{id_or_prefix}": {", ".join(names)}{more}',
            guidance="Write more of the id.",
        )
    return matches[0]


class _HandleWorktree(msgspec.Struct, frozen=True):
    name: str = ""
    cwd: str = ""


class _Handle(msgspec.Struct, frozen=True):
    worktree: _HandleWorktree | None = None


def worktree_of(session: Session) -> str | None:
    """Return the name of the git worktree that a session works in, as its handle says."""
    worktree = _worktree(session)
    return worktree.name if worktree is not None else None


def chosen_folder(session: Session) -> str:
    """Return the folder that the user chose: that of the checkout, where the session works in a worktree."""
    worktree = _worktree(session)
    return worktree.cwd if worktree is not None else session.cwd


def _worktree(session: Session) -> _HandleWorktree | None:
    if session.handle is None or '"worktree":{' not in session.handle:
        return None
    try:
        return msgspec.json.decode(session.handle, type=_Handle).worktree
    except msgspec.MsgspecError:
        return None


def short_ids(sessions: Sequence[Session]) -> dict[str, str]:
    """Return the beginning of each id, long enough to mean no other session."""
    ordered = sorted(session.id for session in sessions)
    shortened = {}
    for before, id_, after in zip(["", *ordered], ordered, [*ordered[1:], ""], strict=False):
        length = max(MIN_ID_CHARACTERS, _common_length(id_, before) + 1, _common_length(id_, after) + 1)
        shortened[id_] = id_[:length]
    return shortened


def _common_length(left: str, right: str) -> int:
    """Count the characters with which both begin."""
    length = min(len(left), len(right))
    return next((index for index in range(length) if left[index] != right[index]), length)


def session_name(session: Session) -> str:
    """Return the session's title, or the beginning of its first prompt."""
    return session.title or session.prompt or "(no prompt yet)"


_FORK_SUFFIX: Final = " (fork)"


def fork_title(original: Session) -> str:
    """Return the title of a session that was forked from this one."""
    name = " ".join((original.title or original.prompt or "New session").split())[:MAX_FORK_TITLE_CHARACTERS]
    return name.removesuffix(_FORK_SUFFIX) + _FORK_SUFFIX


class SessionNode(Protocol):
    """A session, or a sub-agent's session that names its parent."""

    @property
    def id(self) -> str: ...

    @property
    def parent(self) -> str | None: ...


NodeT = TypeVar("NodeT", bound=SessionNode)


def top_level(sessions: Iterable[NodeT]) -> list[NodeT]:
    """Return the sessions that are no sub-agents. Sessions that name each other as parents are top-level."""
    by_id = {session.id: session for session in sessions}
    return [session for session in by_id.values() if not is_sub_agent(session, by_id.get)]


def is_sub_agent(session: NodeT, find: Callable[[str], NodeT | None]) -> bool:
    """Return whether lists leave the session out: it has a parent, even one that is not here. `find` looks up by id."""
    ancestors: set[str] = set()
    node: NodeT | None = session
    while node is not None and node.parent is not None:
        if node.id in ancestors:
            return False
        ancestors.add(node.id)
        node = find(node.parent)
    return bool(ancestors)


def descendants(sessions: Iterable[NodeT], ids: Iterable[str]) -> list[NodeT]:
    """Return the sub-agents of the sessions with these ids, and theirs in turn, without the sessions themselves."""
    children: dict[str, list[NodeT]] = {}
    for session in sessions:
        if session.parent is not None:
            children.setdefault(session.parent, []).append(session)
    result: list[NodeT] = []
    parents = [*ids]
    roots = set(parents)
    for parent in parents:
        for child in children.pop(parent, ()):
            result.append(child)
            parents.append(child.id)
    return [session for session in result if session.id not in roots]
