"""`RowStore`: the rows of one session in memory, as any store reads them back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from dragoman.journal.rows import NAMES, TABLES, Part, Row, RowChanges, SessionRows, StoredMessage, key_of
from dragoman.journal.words import Doc


class RowStore:
    """The rows of one session."""

    def __init__(self) -> None:
        self.tables: dict[str, dict[str, Row]] = {name: {} for name in TABLES}
        self.parts: dict[str, list[Part]] = {}
        self.docs: list[Doc] = []
        self.folded = 0

    def apply(self, changes: RowChanges) -> None:
        for table, key in changes.removed:
            self.tables[table].pop(key, None)
        for row in changes.puts:
            self.tables[NAMES[type(row)]][key_of(row)] = row
            if isinstance(row, StoredMessage) and row.ended:
                self.parts.pop(row.id, None)
        for part in changes.parts:
            self.parts.setdefault(part.message_id, []).append(part)
        self.docs.extend(changes.docs)
        self.folded = changes.position

    def read(self) -> SessionRows:
        tables: dict[str, Sequence[Any]] = {name: list(rows.values()) for name, rows in self.tables.items()}
        tables["messages"] = [self._whole(message) for message in tables["messages"]]
        return SessionRows(**tables)

    def text(self, doc: Doc) -> str:
        if doc.text is not None:
            return doc.text
        message = self.tables["messages"][doc.row_id]
        assert isinstance(message, StoredMessage)
        return message.text

    def _whole(self, message: StoredMessage) -> StoredMessage:
        parts = self.parts.get(message.id)
        if parts is None:
            return message
        blocks = tuple(block for part in parts for block in part.blocks)
        return msgspec.structs.replace(message, text="".join(part.text for part in parts), blocks=blocks)
