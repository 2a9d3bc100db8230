"""Words that a transcript tells twice, by an event and by an item, in either order and with no id in common."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.translate.codex_where import Where


class Echoes:
    """Items are told as they come. Of the events, only those are told whose item never came."""

    def __init__(self) -> None:
        self._events: list[tuple[Where, str]] = []  # that wait for their item
        self._items: list[str] = []  # whose event has not come

    def item(self, text: str) -> None:
        for index, (_, waiting) in enumerate(self._events):
            if waiting.strip() == text.strip():
                del self._events[index]
                return
        self._items.append(text.strip())

    def event(self, where: Where, text: str) -> None:
        if text.strip() in self._items:
            self._items.remove(text.strip())
        elif text.strip():
            self._events.append((where, text))

    def left(self) -> Sequence[tuple[Where, str]]:
        """The turn is over: the events whose items did not come."""
        left, self._events, self._items = self._events, [], []
        return left
