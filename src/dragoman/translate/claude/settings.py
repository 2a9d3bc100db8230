"""What a Claude session is set to, and how full its context is: mode, model, title, usage. Told when it changes."""

from __future__ import annotations

from typing import Any, Final

from dragoman.translate import frames
from dragoman.translate.claude.records import Tokens
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import (
    ConfigOptionUpdate,
    Cost,
    CurrentModeUpdate,
    SessionConfigSelect,
    SessionConfigSelectItem,
    SessionInfoUpdate,
    SessionUpdate,
    UsageUpdate,
)

# As `claude-agent-acp` 0.99.0 names them.
_MODES: Final = {
    "default": "Manual",
    "acceptEdits": "Accept edits",
    "plan": "Plan",
    "auto": "Auto",
    "bypassPermissions": "Bypass permissions",
}

# Tokens that a model's context has room for. Transcripts do not tell: a model with the large one has it in its name,
# or shows it by using more than the small one.
_WINDOW: Final = 200_000
_LARGE_WINDOW: Final = 1_000_000

# Which title is taken where there are several.
_RANKS: Final = ("custom", "ai", "summary")


class Settings:
    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._mode: str | None = None
        self._model: str | None = None
        self._titles: dict[str, str] = {}
        self._title: str | None = None
        self._used: tuple[str, int] | None = None  # the model, and the tokens of its context
        self._cost: float | None = None

    def mode(self, at: float, mode: str) -> None:
        if mode == self._mode:
            return
        first, self._mode = self._mode is None, mode
        self._tell(at, self._options())
        if not first:
            self._tell(at, CurrentModeUpdate(current_mode_id=mode))

    def model(self, at: float, model: str) -> None:
        if model and model != self._model:
            self._model = model
            self._tell(at, self._options())

    def title(self, at: float, rank: str, title: str) -> None:
        """A title of one of the ranks `custom`, `ai`, `summary`."""
        self._titles[rank] = title
        best = next((self._titles[rank] for rank in _RANKS if self._titles.get(rank)), None)
        if best is not None and best != self._title:
            self._title = best
            self._tell(at, SessionInfoUpdate(title=best))

    def usage(self, at: float, model: str, tokens: Tokens, meta: dict[str, Any]) -> None:
        """Of a line of a message; the lines repeat it."""
        used = (model, tokens.total)
        if used != self._used and tokens.total:
            self._used = used
            self._tell_usage(at, meta)

    def cost(self, at: float, cost: float) -> None:
        if cost != self._cost:
            self._cost = cost
            self._tell_usage(at, {})

    def _tell_usage(self, at: float, meta: dict[str, Any]) -> None:
        if self._used is None:
            return  # the cost is told with the first use
        model, used = self._used
        size = _LARGE_WINDOW if "1m" in model or used > _WINDOW else _WINDOW
        cost = Cost(amount=self._cost, currency="USD") if self._cost is not None else None
        self._tell(at, UsageUpdate(used=used, size=size, cost=cost, meta={**meta, "_claude/model": model}))

    def _options(self) -> ConfigOptionUpdate:
        """All that is known; the choices there were are not."""
        options: list[SessionConfigSelect] = []
        for id_, name, value in (("mode", "Mode", self._mode), ("model", "Model", self._model)):
            if value is not None:
                choice = SessionConfigSelectItem(value=value, name=_MODES.get(value, value))
                options.append(
                    SessionConfigSelect(id=id_, name=name, category=id_, current_value=value, options=(choice,))
                )
        return ConfigOptionUpdate(config_options=tuple(options))

    def _tell(self, at: float, update: SessionUpdate) -> None:
        self._out.append(frames.update(self._session_id, at, update))
