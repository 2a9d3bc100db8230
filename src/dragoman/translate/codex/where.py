"""Where in a transcript something is told: when, and at which place of the file. Ids and `_meta` derive from it."""

from __future__ import annotations

from typing import Any

import msgspec


class Where(msgspec.Struct, frozen=True, gc=False):
    at: float  # seconds since 1970
    stamp: str | None  # the same as it stands there; None in files that do not tell
    position: int  # of the record's first byte

    def meta(self, **more: object) -> dict[str, Any]:
        """The native time, and what else of the record has no place in the protocol."""
        told: dict[str, object] = {"at": self.stamp} if self.stamp is not None else {}
        told.update((key, value) for key, value in more.items() if value is not None)
        return {"native": told}
