"""`Policy`: the rules in force, and their verdict on a request. Pure, except that paths are resolved on disk.

Each effect of a request is judged separately; the strictest answer is the verdict, and an effect that no rule matches
is asked about. For one effect the highest layer with a matching rule answers; within a layer deny wins over ask, and
ask over allow:

    built in    the rules of the chosen access (`access.PRESETS`)
    user        config.toml
    workspace   .dragoman/policy.toml, while it is trusted
    remembered  the "always" and "never" answers of a person
    access      the denials of `read-only` once more: a promise of this session
    session     the caller's rules, and its switches for network and web search
    run         the caller's rules for one run

Floors: neither the workspace nor a remembered answer can lift a denial of the user; a remembered answer cannot lift one
of the workspace. Guards: a write under `.git/` or `.dragoman/`, and any access to our home folder, which holds keys, is
always asked about, whatever rule allows it, unless the access is `full`. Doubt: where nobody can know whether a rule
that denies or asks applies, an allow becomes an ask.
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
from dragoman.host.policy.effects import Effect, analyze
from dragoman.host.policy.globs import ResolvedPath, fold
from dragoman.host.policy.matching import match_rule
from dragoman.host.policy.rules import Decision, Layer, PolicyRule, Verdict
from dragoman.workspace import Workspace

LAYERS: Final[tuple[Layer, ...]] = ("built in", "user", "workspace", "remembered", "access", "session", "run")
STRICTEST_FIRST: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")

# Git runs what is written there (hooks), and our own folder holds the rules that bind the agent.
PROTECTED: Final = frozenset({".git", ".dragoman"})
_SHORT_NAME: Final = re.compile(r"(git|dragom)~[0-9]+", re.IGNORECASE)

# The layers that cannot lift a denial of the layer.
_FLOORS: Final[Mapping[Layer, tuple[Layer, ...]]] = {"user": ("workspace", "remembered"), "workspace": ("remembered",)}

# The source that is shown for rules which come from no file.
_SOURCES: Final[Mapping[Layer, str]] = {"session": "a rule of this session", "run": "a rule of this run"}


class EffectVerdict(msgspec.Struct, frozen=True):
    """The verdict on one effect; `matches` are all rules that apply to it, the highest layer first."""

    effect: Effect
    verdict: Verdict
    matches: tuple[tuple[Layer, PolicyRule], ...] = ()


class Policy(msgspec.Struct, frozen=True):
    """`layers` from the lowest to the highest; `home` is our own folder with links resolved, or None."""

    access: Access
    layers: tuple[tuple[Layer, tuple[PolicyRule, ...]], ...]
    home: Path | None = None

    def judge(self, request: PermissionRequest, workspace: Workspace) -> Verdict:
        """Allow, deny or ask, with the reason."""
        verdicts = [each.verdict for each in self.explain(request, workspace)]
        return min(verdicts, key=lambda verdict: STRICTEST_FIRST.index(verdict.decision))

    def explain(self, request: PermissionRequest, workspace: Workspace) -> tuple[EffectVerdict, ...]:
        """Judge each effect of the request."""
        return tuple(self._judge_effect(effect, request, workspace) for effect in analyze(request, workspace))

    def _judge_effect(self, effect: Effect, request: PermissionRequest, workspace: Workspace) -> EffectVerdict:
        certain: dict[Layer, PolicyRule] = {}
        possible: dict[Layer, PolicyRule] = {}
        matches: list[tuple[Layer, PolicyRule]] = []
        for layer, rules in self.layers:
            for rule in rules:
                match = match_rule(rule, effect, request)
                if match == "no":
                    continue
                _keep_stricter(possible, layer, rule)
                if match == "yes":
                    _keep_stricter(certain, layer, rule)
                    matches.append((layer, rule))
        answer = _highest(certain)
        verdict = self._no_match(effect) if answer is None else self._by_rule(effect, *answer)
        if verdict.decision == "allow":
            doubt = _highest(possible)
            if doubt is not None and doubt[1].answer != "allow":
                verdict = self._in_doubt(effect, *doubt)
        # Also where the answer is ask anyway: not every caller asks about reads that no rule of the user's matches.
        needs_guard = verdict.decision == "allow" or (verdict.decision == "ask" and effect.kind == "read")
        if needs_guard and self.access != "full" and (reason := self._guard(effect, workspace)):
            verdict = Verdict("ask", reason, layer="guard")
        return EffectVerdict(effect, verdict, tuple(reversed(matches)))

    def _by_rule(self, effect: Effect, layer: Layer, rule: PolicyRule) -> Verdict:
        name = describe_rule(layer, rule)
        if rule.source != BUILT_IN:
            why = f"{name[:-1]}: {rule.reason})" if rule.reason else name
            return Verdict(rule.answer, f"{effect.phrase}: {why}", name, layer)
        if layer == "built in" and self.access == "full":
            return Verdict(rule.answer, rule.reason, name, layer)
        where = _location(effect) if rule.where is not None else ""
        return Verdict(rule.answer, f"{rule.reason}: {effect.phrase}{where}", name, layer)

    def _no_match(self, effect: Effect) -> Verdict:
        return Verdict("ask", f"access is {self.access}: {effect.phrase}{_location(effect)}")

    def _in_doubt(self, effect: Effect, layer: Layer, rule: PolicyRule) -> Verdict:
        name = describe_rule(layer, rule)
        doubt = effect.unclear or _missing_detail(effect)
        return Verdict("ask", f"{effect.phrase}, but {doubt}: this rule may apply: {name}", name, layer)

    def _guard(self, effect: Effect, workspace: Workspace) -> str | None:
        """Return the reason why the effect always needs an answer; None where it does not."""
        paths: tuple[ResolvedPath | None, ...] = ()
        if effect.kind in ("read", "write"):
            paths = (effect.path,)
        elif effect.kind in ("mcp", "other"):
            paths = effect.mentioned_paths
        for path in paths:
            if path is None:
                continue
            if self._is_in_home(path, workspace):
                return f"{effect.phrase} in {self.home}, which always needs your approval: {path.given}"
            if effect.kind == "read":
                continue
            if path.inside == ".":
                # Everything in it would change with it, `.git` and `.dragoman` included.
                return f"{effect.phrase} to the workspace folder itself, which always needs your approval: {path.given}"
            if folder := _protected_part(path):
                return f"{effect.phrase} under {folder}/, which always needs your approval: {path.given}"
        return None

    def _is_in_home(self, path: ResolvedPath, workspace: Workspace) -> bool:
        if self.home is None or path.real is None:
            return False
        home = Path(fold(str(self.home)))
        real = Path(fold(path.real))
        # A workspace may itself lie in our home folder; its files then count as the workspace's.
        folders = (Path(fold(str(folder))) for folder in workspace.folders)
        in_workspace = any(folder.is_relative_to(home) and real.is_relative_to(folder) for folder in folders)
        return real.is_relative_to(home) and not in_workspace


def build_policy(
    access: Access,
    *,
    network: bool | None = None,
    web_search: bool | None = None,
    user: Iterable[PolicyRule] = (),
    workspace: Iterable[PolicyRule] = (),
    remembered: Iterable[PolicyRule] = (),
    session: Iterable[PolicyRule] = (),
    run: Iterable[PolicyRule] = (),
    home: Path | None = None,
) -> Policy:
    """Build the policy of a session, or of one run of it."""
    preset = PRESETS[access]
    switches = (*_switch("network", "fetch", network), *_switch("web_search", "search", web_search))
    layers: dict[Layer, tuple[PolicyRule, ...]] = {
        "built in": preset,
        "user": tuple(user),
        "workspace": tuple(workspace),
        "remembered": tuple(remembered),
        "access": tuple(rule for rule in preset if rule.answer == "deny"),
        "session": (*switches, *session),
        "run": tuple(run),
    }
    return Policy(access, tuple((layer, layers[layer]) for layer in LAYERS), home and home.resolve())


def describe_rule(layer: Layer, rule: PolicyRule) -> str:
    """Write out the rule and its source."""
    if rule.source == BUILT_IN:
        return f"{rule} ({rule.reason})"
    return f"{rule} ({rule.source or _SOURCES.get(layer, layer)})"


def _switch(name: str, kind: str, on: bool | None) -> tuple[PolicyRule, ...]:
    if on is None:
        return ()
    return (PolicyRule("allow" if on else "deny", f"{name} is {'on' if on else 'off'}", kind=kind, source=BUILT_IN),)


def _keep_stricter(answers: dict[Layer, PolicyRule], layer: Layer, rule: PolicyRule) -> None:
    previous = answers.get(layer)
    if previous is None or STRICTEST_FIRST.index(rule.answer) < STRICTEST_FIRST.index(previous.answer):
        answers[layer] = rule


def _highest(answers: Mapping[Layer, PolicyRule]) -> tuple[Layer, PolicyRule] | None:
    """Pick the rule that answers, given the strictest matching rule of each layer."""
    overruled = {each for layer, rule in answers.items() if rule.answer == "deny" for each in _FLOORS.get(layer, ())}
    for layer in reversed(LAYERS):
        if layer in answers and layer not in overruled:
            return layer, answers[layer]
    return None


def _location(effect: Effect) -> str:
    """Say where the effect reads or writes, as the end of a sentence."""
    if effect.kind not in ("read", "write"):
        return ""
    if effect.path is None:
        return ", and does not say which file"
    return f", but {effect.path.error}" if effect.path.inside is None else " inside the workspace"


def _missing_detail(effect: Effect) -> str:
    match effect.kind:
        case "read" | "write":
            return "does not say which file"
        case "fetch":
            return "does not say from which host"
        case _:
            return "not all of it is known"


def _protected_part(path: ResolvedPath) -> str | None:
    # Inside the workspace only the part below its folder counts: the folders above it are the person's choice.
    parts = PurePath(path.inside if path.inside is not None else path.real or path.given).parts
    return next((part for part in parts if _is_protected(part)), None)


@lru_cache(maxsize=4096)
def _is_protected(name: str) -> bool:
    """Compare the name as file systems do.

    macOS ignores case and invisible characters; Windows ignores dots and blanks at the end and everything after a
    colon, and has short names.
    """
    visible = "".join(each for each in name if unicodedata.category(each) != "Cf").partition(":")[0].rstrip(". ")
    return fold(visible) in PROTECTED or _SHORT_NAME.fullmatch(visible) is not None
