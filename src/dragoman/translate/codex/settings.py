"""What a Codex thread is set to: mode, collaboration mode, model, effort. Told when it changes.

Ids and names are those of `codex-acp` 2.6.0. Which choices there were is not told in a transcript, except for the mode,
which is that adapter's own name for a sandbox and a way to ask.
"""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.translate.codex import records
from dragoman.wire.vocabulary import ConfigOptionUpdate, SessionConfigSelect, SessionConfigSelectItem

# (sandbox, who approves) to the mode's id and name, where it asks on request.
_ASKING: Final = {
    ("read-only", "user"): ("read-only", "Read-only"),
    ("workspace-write", "user"): ("workspace-write", "Workspace access"),
    ("workspace-write", "auto_review"): ("agent", "Auto review"),
}
_FULL_ACCESS: Final = ("agent-full-access", "Full access")


class _Policy(msgspec.Struct, frozen=True, gc=False):
    """A sandbox: called by its mode in older versions, by its type in newer ones."""

    mode: str = ""
    type: str = ""


class _Collaboration(msgspec.Struct, frozen=True, gc=False):
    mode: str = ""


class _Settings(msgspec.Struct, frozen=True, gc=False):
    """Of `thread_settings_applied`."""

    model: str | None = None
    reasoning_effort: str | None = None
    collaboration_mode: _Collaboration | None = None


class Settings:
    def __init__(self) -> None:
        self.model: str | None = None
        self._effort: str | None = None
        self._mode: tuple[str, str] | None = None
        self._collaboration: str | None = None

    def turn(self, context: records.Payload) -> ConfigOptionUpdate | None:
        """Of a `turn_context`; the update where it changes anything."""
        before = self._now()
        self.model = context.model or self.model
        self._effort = context.effort or self._effort
        sandbox = records.read(context.sandbox_policy, _Policy, _Policy())
        approval = records.string(context.approval_policy)
        if sandbox.mode or sandbox.type:
            self._mode = _mode(sandbox.mode or sandbox.type, approval, context.approvals_reviewer or "user")
        self._collaborates(records.read(context.collaboration_mode, _Collaboration, None))
        return self._update() if self._now() != before else None

    def applied(self, raw: msgspec.Raw) -> ConfigOptionUpdate | None:
        """Of the settings of a thread, which the user changed."""
        before = self._now()
        settings = records.read(raw, _Settings, _Settings())
        self.model = settings.model or self.model
        self._effort = settings.reasoning_effort or self._effort
        self._collaborates(settings.collaboration_mode)
        return self._update() if self._now() != before else None

    def _collaborates(self, told: _Collaboration | None) -> None:
        if told is not None and told.mode:
            self._collaboration = told.mode

    def _now(self) -> tuple[object, ...]:
        return self.model, self._effort, self._mode, self._collaboration

    def _update(self) -> ConfigOptionUpdate:
        """All that is known."""
        options: list[SessionConfigSelect] = []
        mode, name = self._mode or (None, "")
        for id_, title, category, value, value_name in (
            ("mode", "Mode", "mode", mode, name),
            ("collaboration_mode", "Collaboration mode", "collaboration_mode", self._collaboration, None),
            ("model", "Model", "model", self.model, None),
            ("reasoning_effort", "Reasoning effort", "thought_level", self._effort, None),
        ):
            if value:
                choice = SessionConfigSelectItem(value=value, name=value_name or _named(id_, value))
                options.append(
                    SessionConfigSelect(id=id_, name=title, category=category, current_value=value, options=(choice,))
                )
        return ConfigOptionUpdate(config_options=tuple(options))


def _mode(sandbox: str, approval: str, reviewer: str) -> tuple[str, str]:
    if sandbox == "danger-full-access" and approval == "never":
        return _FULL_ACCESS
    if approval == "on-request" and (sandbox, reviewer) in _ASKING:
        return _ASKING[sandbox, reviewer]
    # No mode of the adapter's: told by what it is.
    return f"{sandbox}:{approval or 'granular'}", f"{sandbox}, {approval or 'granular'}"


def _named(id_: str, value: str) -> str:
    return value if id_ == "model" else value.capitalize()
