"""Who speaks in a file: the session itself, or a sub-agent whose records stand between its own.

Until 2.0 a sub-agent's records stood in its session's file, marked as a side chain and tied to each other by
`parentUuid` alone; several may be under way at once. Later each sub-agent has a file of its own.
"""

from __future__ import annotations

from dragoman.translate.claude_records import Record

_TALK = ("user", "assistant")


class Chains:
    def __init__(self) -> None:
        self._side: dict[str, str] = {}  # uuids of side chains, to the uuid each began with
        self._between: dict[str, str | None] = {}  # parents of what is no talk: hooks, progress, attachments
        self._asked_after: set[str] = set()  # what a prompt has followed

    def side_of(self, record: Record) -> str:
        """The uuid with which this record's side chain began: its own, where it begins one."""
        uuid = record.uuid or ""
        root = self._side.get(record.parent_uuid or "", uuid)
        self._side[uuid] = root
        return root

    def passed(self, record: Record) -> None:
        if record.uuid is not None and record.type not in _TALK:
            self._between[record.uuid] = record.parent_uuid

    def rewound_to(self, record: Record) -> str | None:
        """For a prompt: what it goes back to, where another prompt has followed that before.

        That alone tells: all other forks of the tree come about by the way the file is written.
        """
        parent = record.parent_uuid
        for _ in range(len(self._between)):
            if parent is None or parent not in self._between:
                break
            parent = self._between[parent]
        if parent is None:
            return None
        if parent in self._asked_after:
            return parent
        self._asked_after.add(parent)
        return None
