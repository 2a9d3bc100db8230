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
of the workspace. Guards (see `guards`): a write to a file that other programs run or obey, a read of a file that holds
secrets, and any access to our home folder are always asked about, whatever rule allows it, unless the access is `full`.
Doubt: where nobody can know whether a rule that denies or asks applies, an allow becomes an ask.

Matching (`match_rule`): rules that allow are matched narrowly, rules that deny or ask widely (see `globs`). Where the
request leaves out what a rule that denies or asks needs to know (which file, which command, which host), the match is a
`maybe`, and the policy asks. A rule that allows never matches on a maybe. A rule that allows a command matches it only
in the workspace's own folder, unless the rule has a `folder`: git, make and others run what the files there name.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import Access
from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.access import BUILT_IN, PRESETS
from dragoman.host.policy.effects import Effect, analyze, resolve_path
from dragoman.host.policy.globs import (
    Match,
    ResolvedPath,
    command_allowed,
    command_found,
    command_names,
    fold,
    folder_matches,
    host_matches,
    mcp_allowed,
    mcp_found,
    name_matches,
    path_matches,
)
from dragoman.host.policy.guards import Guards, default_guards
from dragoman.host.policy.rules import AGENT_KINDS, Decision, Layer, PolicyRule, Verdict
from dragoman.host.shell.wrappers import unwrap_shell
from dragoman.workspace import Workspace

_Matcher: TypeAlias = Callable[[PolicyRule, Effect, PermissionRequest, bool], Match]


def match_rule(rule: PolicyRule, effect: Effect, request: PermissionRequest) -> Match:
    wide = rule.answer != "allow"
    is_certain = True
    for matcher in _matchers(rule):
        matched = matcher(rule, effect, request, wide)
        if matched == "no" or (matched == "maybe" and not wide):
            return "no"
        is_certain = is_certain and matched == "yes"
    return "yes" if is_certain else "maybe"


def _matchers(rule: PolicyRule) -> Iterator[_Matcher]:
    """Yield the rule's matchers, the most selective first, since most rules do not apply."""
    if rule.command:
        yield _match_command
    if rule.path or rule.where is not None:
        yield _match_path
    if rule.mcp:
        yield _match_mcp
    if rule.host:
        yield _match_host
    if rule.line:
        yield _match_line
    if rule.folder:
        yield _match_folder
    if rule.kind:
        yield _match_kind
    if rule.tool:
        yield _match_tool
    if rule.agent:
        yield _match_agent


def _match_agent(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if not request.agent:
        return "maybe"
    return _any(name_matches(pattern, request.agent, wide=wide) for pattern in rule.agent)


def _match_tool(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    # A title is text for people, but where the tool has no name it may still be the tool's.
    name = request.name or (request.title if wide else None)
    return _any(name is not None and name_matches(pattern, name, wide=wide) for pattern in rule.tool)


def _match_kind(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    return _any(_is_kind(kind, rule, effect, request, wide) for kind in rule.kind)


def _is_kind(kind: str, rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> bool:
    effect_kind = AGENT_KINDS.get(kind, kind)
    if effect_kind != effect.kind:
        if wide and effect_kind in ("read", "write") and (rule.path or rule.where):
            # It may read or write a file that it names.
            return bool(effect.mentioned_paths) or bool(effect.argument_paths and _may_use(effect, effect_kind))
        return wide and kind == "mcp" and mcp_found("*", *_tool_texts(effect, request))
    if kind == effect_kind or kind == "execute" or kind == request.kind:
        return True
    # A change that the agent calls neither a deletion nor a move is an edit, whatever it calls it.
    return wide and kind == "edit" and request.kind not in ("delete", "move")


def _match_path(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.decided_later:
        # On the file itself the rules decide when it is known. Until then only those count that are about any file.
        return "no" if wide or rule.path else "yes"
    if effect.kind in ("read", "write"):
        return "maybe" if effect.path is None else _any([_is_at(rule, effect.path, wide)])
    if wide and any(_is_at(rule, path, wide) for path in effect.mentioned_paths):
        return "yes"
    # Nobody knows what the command does with a file that its arguments name.
    return "maybe" if wide and any(_is_at(rule, path, wide) for path in effect.argument_paths) else "no"


def _may_use(effect: Effect, kind: str) -> bool:
    return effect.use_of_arguments == "any" or kind == "read"


def _is_at(rule: PolicyRule, path: ResolvedPath, wide: bool) -> bool:
    if rule.where is not None and (rule.where == "inside") != (path.inside is not None):
        return False
    return not rule.path or any(path_matches(pattern, path, wide=wide) for pattern in rule.path)


def _match_command(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    command = effect.command
    if effect.kind != "run":
        # A file outside that an argument names: allowed where the rule spells out that argument.
        if wide or command is None or effect.argument is None or _is_elsewhere(rule, effect):
            return "no"
        return _any(command_names(pattern, command, effect.argument) for pattern in rule.command)
    if command is None:
        return "maybe"
    if not wide:
        if _is_elsewhere(rule, effect):
            return "no"
        return _any(command_allowed(pattern, command) for pattern in rule.command)
    matches = {command_found(pattern, command) for pattern in rule.command}
    return next((match for match in ("yes", "maybe") if match in matches), "no")


def _is_elsewhere(rule: PolicyRule, effect: Effect) -> bool:
    """Tell whether the command may run in a folder that a rule which allows does not speak of."""
    if effect.outside or effect.may_leave:
        return True
    return not rule.folder and any(folder is not None for folder in effect.folders)


def _match_folder(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.kind != "run" and effect.line is None:
        return "no"
    if wide and (effect.outside or effect.may_leave):
        return "maybe"
    matches = [any(folder_matches(each, folder, wide=wide) for each in rule.folder) for folder in effect.folders]
    if not wide:
        return "no" if effect.outside or effect.may_leave else _any([all(matches)])
    return "yes" if all(matches) else "maybe" if any(matches) else "no"


def _match_line(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    """Match the whole line; the files that it is redirected from and to are part of it."""
    if effect.line is None:
        return "maybe" if effect.kind == "run" else "no"
    if not wide:
        if effect.outside or (effect.in_subfolder and not rule.folder) or effect.env:
            return "no"
        return _any(unwrap_shell(effect.line) == unwrap_shell(line) for line in rule.line)
    spellings = (effect.line.split(), unwrap_shell(effect.line).split())
    return _any(line.split() in spellings or unwrap_shell(line).split() in spellings for line in rule.line)


def _match_mcp(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if wide:
        return _any(mcp_found(pattern, *_tool_texts(effect, request)) for pattern in rule.mcp)
    return _any(effect.mcp is not None and mcp_allowed(pattern, *effect.mcp) for pattern in rule.mcp)


def _tool_texts(effect: Effect, request: PermissionRequest) -> list[str]:
    """List the texts that may name an MCP tool. The title of a command or file request names that instead."""
    title = request.title if effect.kind in ("mcp", "other") else None
    certain = "{1} ({0} MCP Server)".format(*effect.mcp) if effect.mcp is not None else None
    return [text for text in (request.name, title, certain) if text]


def _match_host(rule: PolicyRule, effect: Effect, request: PermissionRequest, wide: bool) -> Match:
    if effect.kind != "fetch":
        return "no"
    host = effect.host
    return "maybe" if host is None else _any(host_matches(pattern, host) for pattern in rule.host)


def _any(matches: Iterable[bool]) -> Match:
    return "yes" if any(matches) else "no"


LAYERS: Final[tuple[Layer, ...]] = ("built in", "user", "workspace", "remembered", "access", "session", "run")
STRICTEST_FIRST: Final[tuple[Decision, ...]] = ("deny", "ask", "allow")

# The layers that cannot lift a denial of the layer.
_FLOORS: Final[Mapping[Layer, tuple[Layer, ...]]] = {"user": ("workspace", "remembered"), "workspace": ("remembered",)}

# Words of one command that are looked up on disk.
MAX_WORDS: Final = 512

# A word that the shell expands may become the path of any file: not `src/*.py`, which stays in the folder.
_LEADS_ANYWHERE: Final = re.compile(r"[$`~<>{]|^/")

# Our folder, as it is called in a workspace and by default in the user's home, and the variable that names another.
_OWN_NAMES: Final = re.compile(r"\.dragoman(?![\w-])|\bDRAGOMAN_HOME\b", re.IGNORECASE)
_OWN_PROGRAM: Final = "dragoman"

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
    guards: Guards | None = None  # None: the built-in ones

    def judge(self, request: PermissionRequest, workspace: Workspace) -> Verdict:
        """Allow, deny or ask, with the reason; of several questions that of a guard, which no rule can answer."""
        verdicts = [each.verdict for each in self.explain(request, workspace)]
        return min(verdicts, key=lambda verdict: (STRICTEST_FIRST.index(verdict.decision), verdict.layer != "guard"))

    def explain(self, request: PermissionRequest, workspace: Workspace) -> tuple[EffectVerdict, ...]:
        """Judge each effect of the request."""
        return tuple(self._judge_effect(effect, request, workspace) for effect in analyze(request, workspace))

    def admin_reason(self, request: PermissionRequest, workspace: Workspace) -> str | None:
        """Return why only the scope `admin` may allow this; None where any client that answers permissions may.

        That is what always needs approval, whatever the access, and a command that may reach our home folder: one that
        names it, and one of which nobody can know what it does. What an allowed command then does is for a sandbox.
        """
        for effect in analyze(request, workspace):
            if reason := self._guard(effect, workspace) or self._unbounded(effect, workspace):
                return reason
        texts = (request.command or "", _json_text(request.raw_input))
        if any(_OWN_NAMES.search(text) or (self.home is not None and str(self.home) in text) for text in texts):
            return "it names a folder of Dragoman's own"
        return None

    def _unbounded(self, effect: Effect, workspace: Workspace) -> str | None:
        """Return the reason why the effect may reach any file, or certainly reaches our home folder."""
        if effect.kind in ("read", "write"):
            if effect.path is None:
                return f"{effect.phrase}, and does not say which file"
            return f"{effect.phrase} outside the workspace: {effect.path.given}" if effect.path.inside is None else None
        if effect.kind != "run":
            return None
        command = effect.command
        if command is None or effect.unclear is not None:
            return f"{effect.phrase}, but {effect.unclear or _missing_detail(effect)}"
        if effect.outside or effect.may_leave:
            return f"{effect.phrase} outside the workspace"
        if any(_is_own_program(word) for word in command.words):
            return f"{effect.phrase} of Dragoman's own"
        words = [word for text in (*command.words, *command.assignments) for word in {text, text.partition("=")[2]}]
        if len(words) > MAX_WORDS:
            return f"{effect.phrase} with more than {MAX_WORDS} words"
        for word in filter(None, words):
            if os.path.normpath(word).startswith("..") or (command.dynamic and _LEADS_ANYWHERE.search(word)):
                return f"{effect.phrase}, but nobody can know where {word} leads"
            path = resolve_path(os.path.join(workspace.cwd, os.path.expanduser(word)), workspace)
            if self._is_in_home(path, workspace):
                return f"{effect.phrase} on {self.home}: {word}"
        return None

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
        # Also where the answer is ask anyway: the guard's reason says more than that no rule matches, and not every
        # caller asks about reads that no rule of the user's matches.
        is_unruled = verdict.decision == "ask" and (effect.kind == "read" or verdict.layer in (None, "built in"))
        needs_guard = verdict.decision == "allow" or is_unruled
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
        paths: tuple[ResolvedPath, ...]
        use: Literal["none", "read", "write", "any"]
        match effect.kind:
            case "read" | "write":
                paths = () if effect.path is None else (effect.path,)
                use = "read" if effect.kind == "read" else "write"
            case "mcp" | "other":
                paths, use = effect.mentioned_paths, "any"
            case "run":
                paths, use = effect.argument_paths, effect.use_of_arguments
            case _:
                return None
        guards = self.guards or default_guards()
        for path in paths:
            if self._is_in_home(path, workspace):
                return f"{effect.phrase} in {self.home}, which always needs your approval: {path.given}"
            if use in ("read", "any") and (reason := guards.reason_to_ask_before_read(path)):
                return f"{effect.phrase} {_with(effect)}{path.given}, which always needs your approval: {reason}"
            if use == "read":
                continue
            if path.inside == "." and effect.kind != "run":
                # Everything in it would change with it, `.git` and `.dragoman` included.
                return f"{effect.phrase} to the workspace folder itself, which always needs your approval: {path.given}"
            if reason := guards.reason_to_ask_before_write(path):
                return f"{effect.phrase} {_with(effect)}{path.given}, which always needs your approval: {reason}"
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
    guards: Guards | None = None,
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
    return Policy(access, tuple((layer, layers[layer]) for layer in LAYERS), home and home.resolve(), guards)


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
    """Say where the effect reads, writes or runs, as the end of a sentence."""
    if effect.kind == "run" and (folder := next((each for each in effect.folders if each is not None), None)):
        return f" in {folder.inside or folder.given} (a rule needs `folder` to allow it there)"
    if effect.kind not in ("read", "write"):
        return ""
    if effect.decided_later:
        return " through Dragoman, which decides on the file then"
    if effect.path is None:
        return ", and does not say which file"
    return f", but {effect.path.error}" if effect.path.inside is None else " inside the workspace"


def _is_own_program(word: str) -> bool:
    """Tell whether a word names our command, or our package or a module of it."""
    return os.path.basename(word) == _OWN_PROGRAM or re.fullmatch(rf"{_OWN_PROGRAM}(\.\w+)+", word) is not None


def _json_text(value: object) -> str:
    try:
        return msgspec.json.encode(value).decode()
    except (TypeError, ValueError, RecursionError):
        return repr(value)


def _missing_detail(effect: Effect) -> str:
    match effect.kind:
        case "read" | "write":
            return "does not say which file"
        case "fetch":
            return "does not say from which host"
        case "run" if effect.command is not None and effect.argument_paths:
            return "nobody knows what it does with the files that it names"
        case _:
            return "not all of it is known"


def _with(effect: Effect) -> str:
    """Return the word between the phrase of the effect and the path: `it runs a command with .env`."""
    return "" if effect.kind in ("read", "write") else "with "
