"""`PromptQueue`: prompts that wait until their session is free, in order, each under an id of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from dragoman.errors import InputError, SessionBusy

PromptT = TypeVar("PromptT")


class PromptQueue(Generic[PromptT]):
    """`on_change` is called after every change, so that the owner can store the queue or show it to others.

    While the queue is `paused` nothing leaves it by `pop_next`: a person has to look at it first. `max_prompts` is the
    number of prompts at which `check_room` refuses more; `add` takes what an earlier owner of the session had queued.
    """

    def __init__(self, *, max_prompts: int | None = None, on_change: Callable[[], None] | None = None) -> None:
        self._prompts: dict[str, PromptT] = {}
        self._max_prompts = max_prompts
        self._on_change = on_change
        self._paused = False

    def __len__(self) -> int:
        return len(self._prompts)

    def __iter__(self) -> Iterator[PromptT]:
        """Iterate over a copy: the queue may change meanwhile."""
        return iter(list(self._prompts.values()))

    def __contains__(self, prompt_id: str) -> bool:
        return prompt_id in self._prompts

    def __getitem__(self, prompt_id: str) -> PromptT:
        """Return a prompt by its id. `InputError` where it does not wait, or no longer."""
        try:
            return self._prompts[prompt_id]
        except KeyError:
            raise InputError(
                f"nothing is queued as {prompt_id!r}", guidance="It may have been sent meanwhile."
            ) from None

    @property
    def paused(self) -> bool:
        return self._paused

    @paused.setter
    def paused(self, paused: bool) -> None:
        if paused != self._paused:
            self._paused = paused
            self._changed()

    @property
    def first(self) -> PromptT | None:
        """The prompt that is next, whether or not the queue is paused."""
        return next(iter(self._prompts.values()), None)

    def check_room(self) -> None:
        """Raise `SessionBusy` where `max_prompts` prompts wait already."""
        if self._max_prompts is not None and len(self._prompts) >= self._max_prompts:
            raise SessionBusy(
                f"{len(self._prompts)} prompts are queued already", guidance="Wait, or remove some of them."
            )

    def add(self, prompt_id: str, prompt: PromptT, *, first: bool = False) -> None:
        """Add a prompt at the end, or as the `first`."""
        if prompt_id in self._prompts:
            raise InputError(f"a prompt is queued as {prompt_id!r} already", guidance="Choose another id.")
        self._prompts = {prompt_id: prompt, **self._prompts} if first else {**self._prompts, prompt_id: prompt}
        self._changed()

    def edit(self, prompt_id: str, prompt: PromptT) -> None:
        """Put another prompt in place of one that waits."""
        _ = self[prompt_id]
        self._prompts[prompt_id] = prompt
        self._changed()

    def move(self, prompt_id: str, position: int) -> None:
        """Move a prompt to this position, 0 being the first; one beyond the ends is the nearest end."""
        prompt = self[prompt_id]
        others = [item for item in self._prompts.items() if item[0] != prompt_id]
        others.insert(min(max(0, position), len(others)), (prompt_id, prompt))
        self._prompts = dict(others)
        self._changed()

    def remove(self, prompt_id: str) -> PromptT:
        prompt = self[prompt_id]
        del self._prompts[prompt_id]
        self._changed()
        return prompt

    def pop_next(self) -> PromptT | None:
        """Take the first prompt; None where nothing waits, or the queue is paused."""
        if self._paused or not self._prompts:
            return None
        prompt = self._prompts.pop(next(iter(self._prompts)))
        self._changed()
        return prompt

    def clear(self) -> list[PromptT]:
        """Remove and return all prompts, in their order."""
        prompts, self._prompts = list(self._prompts.values()), {}
        if prompts:
            self._changed()
        return prompts

    def _changed(self) -> None:
        if self._on_change is not None:
            self._on_change()
