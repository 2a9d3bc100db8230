"""Words that a transcript tells twice, by an event and by an item, in either order and with no id in common."""

from __future__ import annotations

from collections.abc import Sequence

from dragoman.translate.codex.where import Where


class Echoes:
    """Items are told as they come. Of the events, only those are told whose item never came."""

    def __init__(self) -> None:
        self._events: list[tuple[Where, str]] = []  # that wait for their item
        self._items: list[set[str]] = []  # whose event has not come, in the spellings it may have
        self._late: set[str] = set()  # events that were told when the turn was over; their items may follow

    def item(self, *spellings: str) -> bool:
        """Whether it is news. An event may tell all of an item (the first spelling), it without what is hidden in it,
        or only a part, with others for the rest."""
        wanted = {text.strip() for text in spellings if text.strip()}
        waiting = len(self._events)
        for text in wanted:
            index = next((at for at, (_, event) in enumerate(self._events) if event.strip() == text), None)
            if index is not None:
                del self._events[index]
        if len(self._events) < waiting:
            return True
        if spellings[0].strip() in self._late:
            return False
        self._items.append(wanted)
        return True

    def event(self, where: Where, text: str) -> None:
        self._late.clear()
        told = next((item for item in self._items if text.strip() in item), None)
        if told is not None:
            self._items.remove(told)
        elif text.strip():
            self._events.append((where, text))

    def left(self) -> Sequence[tuple[Where, str]]:
        """The turn is over: the events whose items did not come."""
        left, self._events, self._items = self._events, [], []
        self._late = {text.strip() for _, text in left}
        return left
