"""`AtHand`: files that are being written, with all that is known of them, so that only what was added need be read.

What is known of a file takes memory in proportion to it: the files that were asked for last are kept, up to so many
bytes of them. The one that was asked for very last stays, however large: it is the one that costs most to read anew.
"""

from __future__ import annotations

from dragoman.translate.ingest.commits import Commits
from dragoman.translate.ingest.file_import import Intake


class AtHand:
    def __init__(self, limit: int) -> None:
        self._limit = limit  # 0: none is kept
        # The one that was asked for last at the end.
        self._kept: dict[tuple[str, str], tuple[Intake[Commits], float]] = {}

    def pop(self, provider: str, path: str) -> Intake[Commits] | None:
        """To be put back when it was read; where that fails it is not to be used again."""
        intake, _ = self._kept.pop((provider, path), (None, 0.0))
        return intake

    def put(self, provider: str, path: str, intake: Intake[Commits], now: float) -> None:
        if not self._limit:
            return
        self._kept[provider, path] = (intake, now)
        size = sum(one.position.offset for one, _ in self._kept.values())
        while size > self._limit and len(self._kept) > 1:
            oldest, _ = self._kept.pop(next(iter(self._kept)))
            size -= oldest.position.offset

    def let_go(self, before: float) -> None:
        """Those that nobody has asked for since then."""
        self._kept = {key: (one, at) for key, (one, at) in self._kept.items() if at >= before}
