"""`Policy`: the rules in force, and what they answer. Pure but for looking where paths lead.

Each deed of a request is judged by itself; the strictest answer is the verdict, and what no rule matches is asked.
For a deed the highest layer with a matching rule answers, and in it deny goes before ask, and ask before allow:

    built in    the access that was chosen, as rules (`access.PRESETS`)
    user        config.toml
    workspace   .dragoman/policy.toml, while it is trusted
    remembered  what a person answered with "always" or "never"
    access      what `read-only` denies, once more: a promise of this session
    session     the caller's own rules, and its switches for network and web search
    run         the caller's own rules for this run

Floors: what the user denies, workspace and remembered cannot lift; what the workspace denies, remembered cannot.
Guards: a write under `.git/` or `.dragoman/`, and whatever touches our home folder, where keys are kept, is asked
whatever rule allows it, but with access `full`. Doubt: where a rule that denies or asks may be meant, and nobody can
know, an allow becomes an ask.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Final

import msgspec

from dragoman.config import Access
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.access import BUILT_IN, PRESETS
from dragoman.host.policy.deeds import Deed, survey
from dragoman.host.policy.globs import Spot, fold
from dragoman.host.policy.matching import match
from dragoman.host.policy.rules import Decision, Layer, Rule, Verdict
from dragoman.workspace import Workspace

LAYERS: Final[tuple[Layer, ...]] = ("built in", "user", "workspace", "remembered", "access", "session", "run")
STRICTEST_FIRST: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")

# Repositories run what is written there (hooks), and our own folder holds the rules that hold the agent.
PROTECTED: Final = frozenset({".git", ".dragoman"})
_SHORT_NAME: Final = re.compile(r"(git|dragom)~[0-9]+", re.IGNORECASE)

# Whose allows and asks a layer's deny outlasts.
_HELD: Final[Mapping[Layer, tuple[Layer, ...]]] = {"user": ("workspace", "remembered"), "workspace": ("remembered",)}

# Where a rule of no file stands.
_STANDS: Final[Mapping[Layer, str]] = {"session": "a rule of this session", "run": "a rule of this run"}


class Finding(msgspec.Struct, frozen=True):
    """What was found about one deed; `matched` are all rules that are about it, the highest layer first."""

    deed: Deed
    verdict: Verdict
    matched: tuple[tuple[Layer, Rule], ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """`layers` from the lowest to the highest; `home` is our own folder, without links, or None."""

    access: Access
    layers: tuple[tuple[Layer, tuple[Rule, ...]], ...]
    home: Path | None = None

    def judge(self, request: PermissionRequest, workspace: Workspace) -> Verdict:
        """Whether the request is allowed, denied, or is to be asked, and why."""
        verdicts = [finding.verdict for finding in self.explain(request, workspace)]
        return min(verdicts, key=lambda verdict: STRICTEST_FIRST.index(verdict.decision))

    def explain(self, request: PermissionRequest, workspace: Workspace) -> tuple[Finding, ...]:
        """The same, deed by deed."""
        return tuple(self._find(deed, request, workspace) for deed in survey(request, workspace))

    def _find(self, deed: Deed, request: PermissionRequest, workspace: Workspace) -> Finding:
        sure: dict[Layer, Rule] = {}
        possible: dict[Layer, Rule] = {}
        matched: list[tuple[Layer, Rule]] = []
        for layer, rules in self.layers:
            for rule in rules:
                found = match(rule, deed, request)
                if found == "no":
                    continue
                _keep_stricter(possible, layer, rule)
                if found == "yes":
                    _keep_stricter(sure, layer, rule)
                    matched.append((layer, rule))
        answer = _highest(sure)
        verdict = self._unmatched(deed) if answer is None else self._by_rule(deed, *answer)
        if verdict.decision == "allow":
            doubted = _highest(possible)
            if doubted is not None and doubted[1].answer != "allow":
                verdict = self._doubt(deed, *doubted)
        # Also where it is asked anyway: not everybody asks about what no rule of the user's is about.
        guarded = verdict.decision == "allow" or (verdict.decision == "ask" and deed.does == "read")
        if guarded and self.access != "full" and (guard := self._guard(deed, workspace)):
            verdict = Verdict("ask", guard, layer="guard")
        return Finding(deed, verdict, tuple(reversed(matched)))

    def _by_rule(self, deed: Deed, layer: Layer, rule: Rule) -> Verdict:
        name = named(layer, rule)
        if rule.source != BUILT_IN:
            why = f"{name[:-1]}: {rule.reason})" if rule.reason else name
            return Verdict(rule.answer, f"{deed.phrase}: {why}", name, layer)
        if layer == "built in" and self.access == "full":
            return Verdict(rule.answer, rule.reason, name, layer)
        where = _place(deed) if rule.where is not None else ""
        return Verdict(rule.answer, f"{rule.reason}: {deed.phrase}{where}", name, layer)

    def _unmatched(self, deed: Deed) -> Verdict:
        return Verdict("ask", f"access is {self.access}: {deed.phrase}{_place(deed)}")

    def _doubt(self, deed: Deed, layer: Layer, rule: Rule) -> Verdict:
        name = named(layer, rule)
        what = deed.unclear or _unknown(deed)
        return Verdict("ask", f"{deed.phrase}, but {what}: it may be what {name} is about", name, layer)

    def _guard(self, deed: Deed, workspace: Workspace) -> str | None:
        spots = deed.beside if deed.does in ("mcp", "other") else [deed.spot] if deed.does in ("read", "write") else ()
        for spot in spots:
            if spot is None:
                continue
            if self._is_home(spot, workspace):
                return f"{deed.phrase} in {self.home}, which is always asked: {spot.given}"
            if deed.does == "read":
                continue
            if spot.inside == ".":
                # With it would go all that is in it, these two as well.
                return f"{deed.phrase} to the workspace's folder itself, which is always asked: {spot.given}"
            if folder := _protected(spot):
                return f"{deed.phrase} under {folder}/, which is always asked: {spot.given}"
        return None

    def _is_home(self, spot: Spot, workspace: Workspace) -> bool:
        if self.home is None or spot.real is None:
            return False
        home = Path(fold(str(self.home)))
        real = Path(fold(spot.real))
        # A workspace may itself lie in our home folder; then what is in it is the workspace's.
        folders = (Path(fold(str(folder))) for folder in workspace.folders)
        ours = any(folder.is_relative_to(home) and real.is_relative_to(folder) for folder in folders)
        return real.is_relative_to(home) and not ours


def build(
    access: Access,
    *,
    network: bool | None = None,
    web_search: bool | None = None,
    user: Iterable[Rule] = (),
    workspace: Iterable[Rule] = (),
    remembered: Iterable[Rule] = (),
    session: Iterable[Rule] = (),
    run: Iterable[Rule] = (),
    home: Path | None = None,
) -> Policy:
    """The policy of a session, or of one run of it."""
    preset = PRESETS[access]
    switches = (*_switch("network", "fetch", network), *_switch("web_search", "search", web_search))
    layers: dict[Layer, tuple[Rule, ...]] = {
        "built in": preset,
        "user": tuple(user),
        "workspace": tuple(workspace),
        "remembered": tuple(remembered),
        "access": tuple(rule for rule in preset if rule.answer == "deny"),
        "session": (*switches, *session),
        "run": tuple(run),
    }
    return Policy(access, tuple((layer, layers[layer]) for layer in LAYERS), home and home.resolve())


def named(layer: Layer, rule: Rule) -> str:
    """The rule as it reads, and where it stands."""
    if rule.source == BUILT_IN:
        return f"{rule} ({rule.reason})"
    return f"{rule} ({rule.source or _STANDS.get(layer, layer)})"


def _switch(name: str, kind: str, on: bool | None) -> tuple[Rule, ...]:
    if on is None:
        return ()
    return (Rule("allow" if on else "deny", f"{name} is {'on' if on else 'off'}", kind=kind, source=BUILT_IN),)


def _keep_stricter(answers: dict[Layer, Rule], layer: Layer, rule: Rule) -> None:
    known = answers.get(layer)
    if known is None or STRICTEST_FIRST.index(rule.answer) < STRICTEST_FIRST.index(known.answer):
        answers[layer] = rule


def _highest(answers: Mapping[Layer, Rule]) -> tuple[Layer, Rule] | None:
    """The rule that answers, of the strictest match in each layer."""
    held = {each for layer, rule in answers.items() if rule.answer == "deny" for each in _HELD.get(layer, ())}
    for layer in reversed(LAYERS):
        if layer in answers and layer not in held:
            return layer, answers[layer]
    return None


def _place(deed: Deed) -> str:
    """What there is to say about where it reads or writes."""
    if deed.does not in ("read", "write"):
        return ""
    if deed.spot is None:
        return ", and does not say which file"
    return f", but {deed.spot.problem}" if deed.spot.inside is None else " inside the workspace"


def _unknown(deed: Deed) -> str:
    match deed.does:
        case "read" | "write":
            return "does not say which file"
        case "fetch":
            return "does not say from which host"
        case _:
            return "not all of it is known"


def _protected(spot: Spot) -> str | None:
    # Without case: on macOS `.GIT` is the same folder. Inside, the folders above the workspace are the person's choice.
    parts = PurePath(spot.inside if spot.inside is not None else spot.real or spot.given).parts
    return next((part for part in parts if _is_protected(part)), None)


@lru_cache(maxsize=4096)
def _is_protected(name: str) -> bool:
    """Also by the other names that some file systems know it by: macOS passes over characters that nobody sees, Windows
    over dots and blanks at the end and what follows a colon, and has short names."""
    seen = "".join(each for each in name if unicodedata.category(each) != "Cf").partition(":")[0].rstrip(". ")
    return fold(seen) in PROTECTED or _SHORT_NAME.fullmatch(seen) is not None
