"""Who speaks in a file: the session itself, or a sub-agent whose records stand between its own.

Until 2.0 a sub-agent's records stood in its session's file, marked as a side chain and tied to each other by
`parentUuid` alone; several may be under way at once. Later each sub-agent has a file of its own.
"""

from __future__ import annotations

from typing import Final

from dragoman.translate.claude.records import Record
from dragoman.translate.scratch import Scratch, SpillingMap, SpillingSet

_TALK = ("user", "assistant")

# From one record to the talk before it is a step, and one more for each that stands before its parent in the file. Only
# records that name each other as their parents would go on for ever.
_STEPS: Final = 100


class Chains:
    def __init__(self, scratch: Scratch) -> None:
        self._roots: SpillingMap[str] = SpillingMap(scratch)  # uuids in side chains, to the uuid each began with
        # Records that are no talk (hooks, progress, attachments), to the talk that each follows.
        self._talk_before: SpillingMap[str] = SpillingMap(scratch)
        self._prompted_after = SpillingSet(scratch)  # uuids that a prompt has followed

    def side_of(self, record: Record) -> str:
        """The uuid with which this record's side chain began: its own, where it begins one."""
        uuid = record.uuid or ""
        root = self._roots.get(record.parent_uuid or "")
        if root is None:
            root = uuid
        self._roots.put(uuid, root)
        return root

    def passed(self, record: Record) -> None:
        if record.uuid is not None and record.type not in _TALK:
            self._talk_before.put(record.uuid, self._last_talk(record) or "")

    def _last_talk(self, record: Record) -> str | None:
        """What it follows, what is no talk left out. Parents stand before their children, or nearly."""
        uuid = record.parent_uuid
        for _ in range(_STEPS):
            if not uuid or (before := self._talk_before.get(uuid)) is None:
                break
            uuid = before
        return uuid or None

    def rewound_to(self, record: Record) -> str | None:
        """For a prompt: what it goes back to, where another prompt has followed that before.

        That alone tells: all other forks of the tree come about by the way the file is written.
        """
        parent = self._last_talk(record)
        return None if parent is None or self._prompted_after.add(parent) else parent
