"""`Rule`: one rule of a policy, and how it is read from TOML; `Verdict`: the answer of a policy.

A rule answers allow, deny or ask to the effects that it matches. All its matchers must match; of a list, any.

    agent    the agent's id, as a glob
    kind     read, write, run, fetch, search, think, mcp, other; or what the agent calls it: edit, delete, move
    tool     the tool's name, as a glob
    path     the file that is read or written: `**/.env`, `src/**`, `~/.ssh/**`; relative to the workspace's folder
    where    inside or outside the workspace
    command  the command that is run, word by word: `git push *`, `npm run *`
    line     a whole command line, exactly
    folder   the folder that the command runs in; without it, a rule that allows a command or a line is about commands
             that run in the workspace's own folder (`.`)
    mcp      `server/tool`, as globs
    host     the host that is fetched from, as a glob

A rule without matchers matches everything. A rule that could never match (both a command and a path) is an error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

import msgspec

from dragoman.config import Config
from dragoman.document import KeyPath, Table, key_lines, kind, nearest, show
from dragoman.errors import ConfigError, InputError
from dragoman.host.policy.globs import command_pattern

Decision: TypeAlias = Literal["allow", "deny", "ask"]
Where: TypeAlias = Literal["inside", "outside"]

# The kinds of effects of a request.
EffectKind: TypeAlias = Literal["think", "read", "write", "run", "fetch", "search", "mcp", "other"]

# The layers of rules, from the weakest to the strongest (see `policy`); "guard" for a verdict without a rule.
Layer: TypeAlias = Literal["built in", "user", "workspace", "remembered", "access", "session", "run", "guard"]

DECISIONS: Final[tuple[str, ...]] = get_args(Decision)
# The agents' own kinds, each with its effect.
AGENT_KINDS: Final[dict[str, EffectKind]] = {
    "edit": "write",
    "delete": "write",
    "move": "write",
    "execute": "run",
    "switch_mode": "other",
}
KINDS: Final[tuple[str, ...]] = (*get_args(EffectKind), *AGENT_KINDS)
# The effects that a matcher can match: a rule may have matchers for one effect only, with a kind that fits it.
_MATCHED_EFFECTS: Final[dict[str, tuple[EffectKind, ...]]] = {
    "path": ("read", "write"),
    "where": ("read", "write"),
    "command": ("run",),
    "line": ("run",),
    "folder": ("run",),
    "mcp": ("mcp",),
    "host": ("fetch",),
}
LISTS: Final = ("agent", "kind", "tool", "path", "command", "line", "folder", "mcp", "host")
FIELDS: Final = ("answer", "reason", *LISTS, "where")

Patterns: TypeAlias = str | Sequence[str]


class BadRule(InputError):
    """An invalid rule; `field` is the field with the error."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class PolicyRule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """One rule. `source` is where it comes from (`file:line`), for messages; it does not affect matching."""

    answer: Decision
    reason: str = ""
    agent: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    where: Where | None = None
    command: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    folder: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    source: str = ""

    if TYPE_CHECKING:  # the fields are tuples; callers may also pass one pattern, or any list

        def __init__(
            self,
            answer: Decision,
            reason: str = "",
            agent: Patterns = (),
            kind: Patterns = (),
            tool: Patterns = (),
            path: Patterns = (),
            where: Where | None = None,
            command: Patterns = (),
            line: Patterns = (),
            folder: Patterns = (),
            mcp: Patterns = (),
            host: Patterns = (),
            source: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        for field in LISTS:
            msgspec.structs.force_setattr(self, field, _patterns(field, getattr(self, field)))
        if error := next(_errors(self), None):
            raise error

    @property
    def matchers(self) -> Mapping[str, str | tuple[str, ...]]:
        """The matchers that are set."""
        values = {field: getattr(self, field) for field in (*LISTS, "where")}
        return {field: value for field, value in values.items() if value}

    def __str__(self) -> str:
        """Write out the rule: `deny path **/.env`."""
        matchers = [
            f"{field} {value if isinstance(value, str) else ' | '.join(value)}"
            for field, value in self.matchers.items()
        ]
        return f"{self.answer} {', '.join(matchers) or 'everything'}"


class Verdict(msgspec.Struct, frozen=True):
    """The answer of a policy. `rule` is the deciding rule with its source; None for a guard, or without a match."""

    decision: Decision
    reason: str
    rule: str | None = None
    layer: Layer | None = None


def _patterns(field: str, value: object) -> tuple[str, ...]:
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, list | tuple) or not all(isinstance(each, str) for each in value):
        raise BadRule(field, f"{field} is {value!r}; expected a text, or a list of texts")
    return tuple(value)


def _errors(rule: PolicyRule) -> Iterator[BadRule]:
    """Find errors that make a rule useless, or different from what its author meant."""
    if rule.answer not in DECISIONS:
        yield BadRule("answer", _not_one_of("answer", rule.answer, DECISIONS))
    reason: object = rule.reason
    if not isinstance(reason, str):
        yield BadRule("reason", f"reason is {kind(reason)}; expected a text")
    if rule.where is not None and rule.where not in get_args(Where):
        yield BadRule("where", _not_one_of("where", rule.where, get_args(Where)))
    for field in LISTS:
        for pattern in getattr(rule, field):
            if not pattern.strip():
                yield BadRule(field, f"{field} has an empty pattern; leave {field} out to match any")
    for each in rule.kind:
        if each not in KINDS:
            yield BadRule("kind", _not_one_of("kind", each, KINDS))
    for field, pattern in (*(("path", each) for each in rule.path), *(("folder", each) for each in rule.folder)):
        if ".." in pattern.split("/"):
            yield BadRule(
                field, f"{field} is {show(pattern)}; expected a pattern without `..` (from outside: /… or ~/…)"
            )
    for pattern in rule.command:
        try:
            command_pattern(pattern)
        except ValueError as error:
            yield BadRule("command", f"command is {show(pattern)}, which cannot be read as words: {error}")
    effects = {field: _MATCHED_EFFECTS[field] for field in rule.matchers if field in _MATCHED_EFFECTS}
    if len(set(effects.values())) > 1:
        fields = sorted(effects)
        yield BadRule(fields[-1], f"{' and '.join(fields)} are never about the same thing: make a rule for each")
    for field, kinds in effects.items():
        if rule.kind and not any(AGENT_KINDS.get(each, each) in kinds for each in rule.kind):
            yield BadRule("kind", f"kind is {show(rule.kind[0])}, but {field} is about {' or '.join(kinds)}")


def _not_one_of(field: str, value: object, choices: Sequence[str]) -> str:
    near = nearest(value, choices) if isinstance(value, str) else None
    hint = f' (did you mean "{near}"?)' if near else ""
    return f"{field} is {show(value)}; expected one of: {', '.join(choices)}{hint}"


def read_rules(key_path: KeyPath, tables: object) -> tuple[PolicyRule, ...]:
    """Read a list of TOML tables as rules; `ConfigError` with file and line where one is invalid."""
    if not isinstance(tables, list):
        raise key_path.wrong(str(key_path.keys[-1]), kind(tables), "tables, each written as [[…]]")
    lines = key_lines(key_path.document.text)
    rules = []
    for index, table in enumerate(tables):
        line = lines.get((*key_path.keys, index))
        source = f"{key_path.document.name}:{line}" if line else key_path.document.name
        rules.append(_read_rule(key_path / index, table, source))
    return tuple(rules)


def _read_rule(key_path: KeyPath, table: object, source: str) -> PolicyRule:
    if not isinstance(table, dict):
        raise key_path.wrong("a rule", kind(table), 'a table: answer = "deny", path = "**/.env"')
    for key in table:
        if key not in FIELDS:
            raise (key_path / key).unknown(key, FIELDS)
    if "answer" not in table:
        raise key_path.wrong("answer", "missing", f"one of: {', '.join(DECISIONS)}")
    for field in LISTS:
        value = table.get(field, "")
        if isinstance(value, list) and not value:
            raise (key_path / field).wrong(field, "an empty array", "one pattern or more, or nothing at all")
        if not isinstance(value, str | list) or not all(isinstance(each, str) for each in value):
            raise (key_path / field).wrong(field, kind(value), "a text, or an array of texts")
    try:
        return PolicyRule(**table, source=source)  # its keys are fields; `Rule` checks the values
    except BadRule as error:
        raise ConfigError(str(error), where=(key_path / error.field).where) from None


def read_table(key_path: KeyPath, table: Table) -> tuple[PolicyRule, ...]:
    """Read a policy file, or the `policy` table of `config.toml`: `[[rules]]`, and nothing else."""
    for key in table:
        if key != "rules":
            raise (key_path / key).unknown(key, ("rules",))
    return read_rules(key_path / "rules", table.get("rules", []))


def user_rules(config: Config) -> tuple[PolicyRule, ...]:
    """Read the user's rules: `[[policy]]` or `[[policy.rules]]` in `config.toml`."""
    key_path = config.key_path("policy")
    match config.policy:
        case dict(table):
            return read_table(key_path, table)
        case tables:
            return read_rules(key_path, tables)
