"""`Rule`: one line of a policy, and how it is read from TOML; `Verdict`: what a policy answers.

A rule answers allow, deny or ask to the effects that it matches. All its matchers must match; of a list, any.

    agent    the agent's id, as a glob
    kind     read, write, run, fetch, search, think, mcp, other; or what the agent calls it: edit, delete, move
    tool     the tool's name, as a glob
    path     of what is read or written: `**/.env`, `src/**`, `~/.ssh/**`; relative ones from the workspace's folder
    where    inside or outside the workspace
    command  of what is run, word by word: `git push *`, `npm run *`
    line     a whole command line, exactly
    mcp      `server/tool`, as globs
    host     of what is fetched, as a glob

A rule without matchers matches everything. One that could match nothing (a command's path) is refused when it is made.
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

# What a request does, as policy sees it.
EffectKind: TypeAlias = Literal["think", "read", "write", "run", "fetch", "search", "mcp", "other"]

# Where a rule stands, from the weakest to the strongest (`policy` says what that means); or what spoke in its place.
Layer: TypeAlias = Literal["built in", "user", "workspace", "remembered", "access", "session", "run", "guard"]

DECISIONS: Final[tuple[str, ...]] = get_args(Decision)
# The agent's own words, each with what it does in ours.
AGENT_KINDS: Final[dict[str, EffectKind]] = {
    "edit": "write",
    "delete": "write",
    "move": "write",
    "execute": "run",
    "switch_mode": "other",
}
KINDS: Final[tuple[str, ...]] = (*get_args(EffectKind), *AGENT_KINDS)
# The effects that a matcher is about: a rule may have only one of these, and only with a kind that it fits.
_ABOUT: Final[dict[str, tuple[EffectKind, ...]]] = {
    "path": ("read", "write"),
    "where": ("read", "write"),
    "command": ("run",),
    "line": ("run",),
    "mcp": ("mcp",),
    "host": ("fetch",),
}
LISTS: Final = ("agent", "kind", "tool", "path", "command", "line", "mcp", "host")
FIELDS: Final = ("answer", "reason", *LISTS, "where")

Patterns: TypeAlias = str | Sequence[str]


class BadRule(InputError):
    """A rule that cannot be; `field` is the matcher that makes it so."""

    def __init__(self, field: str, message: str) -> None:
        super().__init__(message)
        self.field = field


class Rule(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """`source` is where it stands (`file:line`), for messages; it is no part of what the rule says."""

    answer: Decision
    reason: str = ""
    agent: tuple[str, ...] = ()
    kind: tuple[str, ...] = ()
    tool: tuple[str, ...] = ()
    path: tuple[str, ...] = ()
    where: Where | None = None
    command: tuple[str, ...] = ()
    line: tuple[str, ...] = ()
    mcp: tuple[str, ...] = ()
    host: tuple[str, ...] = ()
    source: str = ""

    if TYPE_CHECKING:  # the fields are tuples; what callers give may also be one pattern, or any list

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
            mcp: Patterns = (),
            host: Patterns = (),
            source: str = "",
        ) -> None: ...

    def __post_init__(self) -> None:
        for field in LISTS:
            msgspec.structs.force_setattr(self, field, _patterns(field, getattr(self, field)))
        if problem := next(_problems(self), None):
            raise problem

    @property
    def matchers(self) -> Mapping[str, str | tuple[str, ...]]:
        """Those that were given."""
        given = {field: getattr(self, field) for field in (*LISTS, "where")}
        return {field: value for field, value in given.items() if value}

    def __str__(self) -> str:
        """As one would say it: `deny path **/.env`."""
        said = [
            f"{field} {value if isinstance(value, str) else ' | '.join(value)}"
            for field, value in self.matchers.items()
        ]
        return f"{self.answer} {', '.join(said) or 'everything'}"


class Verdict(msgspec.Struct, frozen=True):
    """`rule` is the rule that decided and where it stands; None where no rule matched, or a guard spoke."""

    decision: Decision
    reason: str
    rule: str | None = None
    layer: Layer | None = None


def _patterns(field: str, given: object) -> tuple[str, ...]:
    if isinstance(given, str):
        given = (given,)
    if not isinstance(given, list | tuple) or not all(isinstance(each, str) for each in given):
        raise BadRule(field, f"{field} is {given!r}; expected a text, or a list of texts")
    return tuple(given)


def _problems(rule: Rule) -> Iterator[BadRule]:
    """What makes a rule useless, or another than was meant."""
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
    for pattern in rule.path:
        if ".." in pattern.split("/"):
            yield BadRule("path", f"path is {show(pattern)}; expected a pattern without `..` (from outside: /… or ~/…)")
    for pattern in rule.command:
        try:
            command_pattern(pattern)
        except ValueError as problem:
            yield BadRule("command", f"command is {show(pattern)}, which cannot be read as words: {problem}")
    about = {field: _ABOUT[field] for field in rule.matchers if field in _ABOUT}
    if len(set(about.values())) > 1:
        fields = sorted(about)
        yield BadRule(fields[-1], f"{' and '.join(fields)} are never about the same thing: make a rule for each")
    for field, effects in about.items():
        if rule.kind and not any(AGENT_KINDS.get(each, each) in effects for each in rule.kind):
            yield BadRule("kind", f"kind is {show(rule.kind[0])}, but {field} is about {' or '.join(effects)}")


def _not_one_of(field: str, found: object, choices: Sequence[str]) -> str:
    near = nearest(found, choices) if isinstance(found, str) else None
    hint = f' (did you mean "{near}"?)' if near else ""
    return f"{field} is {show(found)}; expected one of: {', '.join(choices)}{hint}"


def read_rules(place: KeyPath, tables: object) -> tuple[Rule, ...]:
    """Rules from a list of TOML tables; `ConfigError` with file and line where one cannot be used."""
    if not isinstance(tables, list):
        raise place.wrong(str(place.keys[-1]), kind(tables), "tables, each written as [[…]]")
    lines = key_lines(place.document.text)
    rules = []
    for index, table in enumerate(tables):
        line = lines.get((*place.keys, index))
        source = f"{place.document.name}:{line}" if line else place.document.name
        rules.append(_read_rule(place / index, table, source))
    return tuple(rules)


def _read_rule(place: KeyPath, table: object, source: str) -> Rule:
    if not isinstance(table, dict):
        raise place.wrong("a rule", kind(table), 'a table: answer = "deny", path = "**/.env"')
    for key in table:
        if key not in FIELDS:
            raise (place / key).unknown(key, FIELDS)
    if "answer" not in table:
        raise place.wrong("answer", "missing", f"one of: {', '.join(DECISIONS)}")
    for field in LISTS:
        value = table.get(field, "given not")
        if isinstance(value, list) and not value:
            raise (place / field).wrong(field, "an empty array", "one pattern or more, or nothing at all")
        if not isinstance(value, str | list) or not all(isinstance(each, str) for each in value):
            raise (place / field).wrong(field, kind(value), "a text, or an array of texts")
    try:
        return Rule(**table, source=source)  # its keys are fields, and what they may hold was or will be checked
    except BadRule as error:
        raise ConfigError(str(error), where=(place / error.field).where) from None


def read_table(place: KeyPath, table: Table) -> tuple[Rule, ...]:
    """A whole policy file, or the `policy` table of `config.toml`: `[[rules]]`, and nothing else."""
    for key in table:
        if key != "rules":
            raise (place / key).unknown(key, ("rules",))
    return read_rules(place / "rules", table.get("rules", []))


def user_rules(config: Config) -> tuple[Rule, ...]:
    """The user's own: `[[policy]]` or `[[policy.rules]]` in `config.toml`."""
    place = config.key_path("policy")
    match config.policy:
        case dict(table):
            return read_table(place, table)
        case tables:
            return read_rules(place, tables)
