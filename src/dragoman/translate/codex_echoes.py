"""Words that a transcript tells twice, by an event and by an item, in either order and with no id in common."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.translate.codex_where import Where


class Echoes:
    """Items are told as they come. Of the events, only those are told whose item never came."""

    def __init__(self) -> None:
        self._events: list[tuple[Where, str]] = []  # that wait for their item
        self._items: list[set[str]] = []  # whose event has not come, in the spellings it may have

    def item(self, *spellings: str) -> None:
        """An event may tell all of an item, without what is hidden in it, or only a part, with others for the rest."""
        wanted = {text.strip() for text in spellings if text.strip()}
        waiting = len(self._events)
        for text in wanted:
            index = next((at for at, (_, event) in enumerate(self._events) if event.strip() == text), None)
            if index is not None:
                del self._events[index]
        if len(self._events) == waiting:
            self._items.append(wanted)

    def event(self, where: Where, text: str) -> None:
        told = next((item for item in self._items if text.strip() in item), None)
        if told is not None:
            self._items.remove(told)
        elif text.strip():
            self._events.append((where, text))

    def left(self) -> Sequence[tuple[Where, str]]:
        """The turn is over: the events whose items did not come."""
        left, self._events, self._items = self._events, [], []
        return left
