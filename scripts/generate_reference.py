"""Write docs/reference/ and docs/agents.md from the code: docstrings, signatures, comments beside fields, presets.

`--check` writes nothing and exits with 1 if a page does not match the code; a test runs it. What is missing on a page
is missing in a docstring: fix it there and run this again.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import os
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeGuard, TypeVar

import click
import msgspec

import dragoman
from dragoman import config, errors, events, ports
from dragoman.agents import demo, preset
from dragoman.cli.main import dragoman as command_line
from dragoman.host.policy import access
from dragoman.record import rows

T = TypeVar("T")

ROOT = Path(__file__).resolve().parents[1]
NOTE = "<!-- Written by scripts/generate_reference.py: change the code's docstrings, not this page. -->"

# What a program wants, the names to use, and where the session runs.
WHICH_ONE = (
    ("one answer", ("run", "run_sync"), "in this process"),
    ("a conversation, or events while the agent works", ("open_session", "open_session_sync"), "in this process"),
    ("to continue a session by its handle", ("resume_session", "resume_session_sync"), "in this process"),
    ("a value of a Python type, or Python functions as tools", ("evaluate", "evaluate_sync"), "in this process"),
    ("the same sessions as the page", ("Client", "SyncClient"), "on a server"),
)
LAYER_BELOW = (
    ("Hub", "the journal of a home folder, and the sessions of this process in it"),
    ("AgentRuntime", "one agent process with any number of sessions"),
    ("BackendAdapter", "front ends that want one message format for every agent"),
    ("AcpAdapter", "many evaluations with the same settings"),
)

# The public names, the entry points first.
GROUPS = {
    "Entry points": (
        "open_session",
        "open_session_sync",
        "run",
        "run_sync",
        "resume_session",
        "resume_session_sync",
        "evaluate",
        "evaluate_sync",
        "Client",
        "SyncClient",
    ),
    "Sessions and runs": ("Session", "Run", "RunResult", "SessionHandle", "Capabilities"),
    "Checkpoints": (
        "WorkspaceDiff",
        "ComparedFile",
        "Hunk",
        "Checkpoint",
        "Rewind",
        "RewindChange",
        "RunRef",
        "SkippedPath",
    ),
    "Git": ("GitActions", "GitState", "GitFile", "GitRemote", "GitCommit", "GitPush", "PullRequest", "ProposedMessage"),
    "Worktrees": (
        "worktrees",
        "Worktrees",
        "Worktree",
        "WorktreeChoice",
        "WorktreeInfo",
        "WorktreeChanges",
        "WorktreeApply",
        "WorktreeMerge",
        "Leftover",
        "worktrees_sync",
        "SyncWorktrees",
        "SyncWorktree",
    ),
    "Isolation": ("Isolation", "IsolationReport"),
    "Attachments": ("TextAttachment", "FileAttachment", "ImageAttachment", "AudioAttachment", "LinkAttachment"),
    "Permissions": ("PermissionRequest", "PermissionAnswer", "PolicyRule", "answer_later"),
    "Questions": ("Question", "QuestionAnswer"),
    "Logging in": ("login", "LoginMethod"),
    "Sessions on a server": ("RemoteSession",),
    "Evaluation": (
        "EvaluationPrompt",
        "PromptResponse",
        "EvaluationStats",
        "Budget",
        "RetryPolicy",
        "AcpAdapter",
        "ModelConfig",
        "AdapterConfig",
    ),
    "MCP servers": ("McpServerStdio", "McpServerHttp", "McpServerSse", "EnvVariable", "HttpHeader"),
    "Tools": ("tool", "Tool", "ToolContext", "ToolError", "ToolServer"),
    "The layer below": (
        "Hub",
        "AgentRuntime",
        "BackendAdapter",
        "AgentSpec",
        "SessionConfig",
        "Workspace",
        "Limits",
        "Diagnostic",
    ),
    "For programs without async": ("SyncSession", "SyncGit", "SyncRun", "SyncAgentRuntime"),
    "Interfaces": ("AgentClient", "LocalClient"),
}
# Modules that have their own page or section.
ELSEWHERE = {"__version__", "errors", "events", "ports", "rows"}

# Rows that a program meets in results and events.
ROWS = (
    "Usage",
    "ToolCall",
    "PlanEntry",
    "Permission",
    "FileCall",
    "Terminal",
    "Question",
    "Setting",
    "Choice",
    "Command",
)

# Methods outside of a class's section "for programs" that belong on the page; methods inside it that do not.
ALSO = {"AgentRuntime": ("start",)}
EXCEPT = {"Run": ("claim", "next_events"), "AgentRuntime": ("busy",), "Capabilities": ("require",)}

# Attributes that are set in a constructor, without a comment or docstring.
ATTRIBUTES = {
    "Session": {
        "id": "Dragoman's id; stays the same when the session is resumed",
        "agent_session_id": "the agent's id",
        "config": "the `SessionConfig` that it was opened with",
        "fold": "its current state: `messages`, `tool_calls`, `plans`, `commands`, `settings` (by id), "
        "`usage`, `title`, `permissions`, `files`, `terminals`, `questions`, `runs`, `sub_agents`",
    },
    "RemoteSession": {"id": "the id of the session, the same as on the server"},
    "Run": {"id": "the id of the run"},
    "AgentRuntime": {
        "spec": "the `AgentSpec`",
        "limits": "the `Limits`",
        "diagnostics": "`recent` entries, and a `count`",
    },
}

# Programs get these from functions and methods, and never call the constructor.
NOT_CONSTRUCTED = {"Session", "Run", "GitActions", "SyncSession", "SyncRun", "SyncGit", "AgentClient", "RemoteSession"}

# Classes that are described by the docstring of their module.
DESCRIBED_BY_MODULE = {"Diagnostic"}

COLUMNS = 80  # of the help texts, as on a terminal


# Code as text ---------------------------------------------------------------------------------------------------------


def docstring(thing: object) -> str:
    """Return a thing's own docstring; Protocols and structs without one inherit a generic text, which is ignored."""
    text = thing.__dict__.get("__doc__") if isinstance(thing, type) else thing.__doc__
    return inspect.cleandoc(text) if text else ""


def signature(name: str, function: Callable[..., Any]) -> str:
    """Return the call as a reader writes it, with one parameter per line if it is long."""
    found = inspect.signature(function)
    # A default that is a function or a class is a seam for tests, not for programs.
    parameters = [
        parameter.replace(annotation=Written(parameter.annotation))
        if parameter.annotation is not parameter.empty
        else parameter
        for parameter in found.parameters.values()
        if parameter.name != "self" and (parameter.default is parameter.empty or not callable(parameter.default))
    ]
    start = "async " if inspect.iscoroutinefunction(function) else ""
    line = str(found.replace(parameters=parameters, return_annotation=Written(found.return_annotation)))
    line = line.removesuffix(" -> None") if name[:1].isupper() else line
    if len(line) + len(name) < 100:
        return f"{start}{name}{line}"
    body, star = [], False
    for parameter in parameters:
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            body.append("*")
            star = True
        body.append(str(parameter))
    returned = "" if name[:1].isupper() else f" -> {found.return_annotation}"
    return f"{start}{name}(\n" + "".join(f"    {part},\n" for part in body) + f"){returned}"


class Written:
    """An annotation as it stands in the source, without the quotes that a string would get."""

    def __init__(self, text: object) -> None:
        self.text = str(text)

    def __repr__(self) -> str:
        return self.text


def comments(class_: type) -> dict[str, str]:
    """Return the comment of each field, above or beside it."""
    lines = textwrap.dedent(inspect.getsource(class_)).splitlines()
    found: dict[str, str] = {}
    (tree,) = ast.parse("\n".join(lines)).body
    assert isinstance(tree, ast.ClassDef)
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            text: list[str] = []
            above = node.lineno - 2
            while lines[above].lstrip().startswith("# "):
                text.insert(0, lines[above].strip().removeprefix("# "))
                above -= 1
            _, _, beside = lines[(node.end_lineno or node.lineno) - 1].partition("  # ")
            found[node.target.id] = " ".join([*text, *([beside.strip()] if beside else [])])
    return found


def types_of(class_: type) -> dict[str, str]:
    """Return the fields' types as they are written, those of the bases first."""
    found: dict[str, str] = {}
    for base in reversed(class_.__mro__):
        found |= {name: str(type_) for name, type_ in inspect.get_annotations(base).items()}
    return {name: type_ for name, type_ in found.items() if not type_.startswith("ClassVar")}


def fields(class_: type[msgspec.Struct], leave_out: Iterable[str] = ()) -> str:
    """Return a table of a struct's fields."""
    types, text = types_of(class_), comments(class_)
    body = []
    for field in msgspec.structs.fields(class_):
        if field.name in leave_out:
            continue
        default = "" if field.required else _shown(_default(field))
        body.append((f"`{field.name}`", f"`{types.get(field.name, '')}`", default, text.get(field.name, "")))
    head = ("field", "type", "default", "")
    if not any(row[3] for row in body):
        return table(head[:3], [row[:3] for row in body])
    return table(head, body)


def _default(field: msgspec.structs.FieldInfo) -> object:
    return field.default if field.default is not msgspec.NODEFAULT else field.default_factory()


def _shown(value: object) -> str:
    match value:
        case {} | [] | "":
            return "empty"
        case msgspec.Raw():
            return ""
        case str():
            return f'`"{value}"`'
        case _:
            return f"`{value}`"


def methods(class_: type) -> Iterator[tuple[str, Callable[..., Any] | property]]:
    """Return the methods that are for programs: if the class has a section of that name, those in it."""
    source = inspect.getsource(class_)
    _, programs, rest = source.partition("# -- for programs")
    section = rest.partition("# -- ")[0] if programs else source
    for name, member in class_.__dict__.items():
        ours = re.search(rf"def {name}\(", section) or name in ALSO.get(class_.__name__, ())
        ours = ours and name not in EXCEPT.get(class_.__name__, ())
        if not name.startswith("_") and ours and (callable(member) or isinstance(member, property)):
            yield name, member


def table(head: Iterable[str], body: Iterable[Iterable[str]]) -> str:
    lines = [list(head), *(list(row) for row in body)]
    escaped = [[cell.replace("|", "\\|").replace("\n", " ") for cell in line] for line in lines]
    rule = ["---"] * len(escaped[0])
    cells = [[f" {cell} " if cell else " " for cell in line] for line in (escaped[0], rule, *escaped[1:])]
    return "\n".join(f"|{'|'.join(line)}|" for line in cells)


def code(text: str, language: str = "text") -> str:
    fence = "```" if "```" not in text else "````"
    return f"{fence}{language}\n{text}\n{fence}"


def page(title: str, *parts: str) -> str:
    return "\n\n".join([f"# {title}", NOTE, *(part for part in parts if part)]) + "\n"


# The pages ------------------------------------------------------------------------------------------------------------


def python_page() -> str:
    public = set(dragoman.__all__) - ELSEWHERE
    listed = {name for names in GROUPS.values() for name in names}
    if public != listed:
        raise SystemExit(f"GROUPS and dragoman.__all__ differ: {', '.join(sorted(public ^ listed))}")
    parts = [
        "All names on this page are in `dragoman`: `import dragoman`, then `dragoman.run_sync(…)`. "
        "[Errors](errors.md) and [events](events.md) have their own pages.",
        "## Which one do I want?",
        table(
            ("you want", "use", "the session runs"),
            [(want, ", ".join(map(_link, names)), where) for want, names, where in WHICH_ONE],
        ),
        "The layer below is for programs that manage agents themselves:",
        table(("class", "for"), [(_link(name), purpose) for name, purpose in LAYER_BELOW]),
    ]
    keywords = KeywordTables()
    for group, names in GROUPS.items():
        parts.append(f"## {group}")
        for name in names:
            parts += _documented(name, getattr(dragoman, name), keywords)
    parts.append("## Rows\n\nThe parts of results, events and `session.fold` (`dragoman.rows`).")
    for name in ROWS:
        parts += _documented(name, getattr(rows, name), keywords)
    return page("Python", *parts)


def _link(name: str) -> str:
    return f"[`{name}`](#{name.lower()})"


class KeywordTables:
    """Tables of the keywords that functions take as `**options: Unpack[SomeOptions]`.

    A function that takes the keywords of an earlier one lists only the others, and links to it.
    """

    def __init__(self) -> None:
        self._described: dict[str, dict[str, str]] = {}  # comments by keyword, by the heading of a function

    def describe(self, heading: str, function: Callable[..., Any]) -> str:
        """Return the table of a function's keywords; empty if it takes none."""
        options = _options_type(function)
        if options is None:
            return ""
        types, text = _keywords(options)
        known = max(
            (each for each, described in self._described.items() if described.items() <= text.items()),
            key=lambda each: len(self._described[each]),
            default=None,
        )
        rest = {name: comment for name, comment in text.items() if not known or name not in self._described[known]}
        self._described.setdefault(heading, text)
        also = f"The keywords of [`{known}`](#{known.lower().split('.')[0]})" if known else "Keywords, all optional"
        if not rest:
            return f"{also}."
        body = [(f"`{name}`", f"`{types[name]}`", comment) for name, comment in rest.items()]
        return f"{also}{', and' if known else ''}:\n\n{table(('keyword', 'type', ''), body)}"


def _options_type(function: Callable[..., Any]) -> type | None:
    """Return the TypedDict of a function's keywords."""
    for parameter in inspect.signature(function).parameters.values():
        named = re.fullmatch(r"Unpack\[(\w+)\]", str(parameter.annotation))
        if named is not None:
            options: type = vars(sys.modules[function.__module__])[named[1]]
            return options
    return None


def _keywords(options: type) -> tuple[dict[str, str], dict[str, str]]:
    """Return the types and the comments of a TypedDict's keywords, those of its bases first."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(options))).body
    assert isinstance(tree, ast.ClassDef)
    types: dict[str, str] = {}
    text: dict[str, str] = {}
    for base in tree.bases:
        if isinstance(base, ast.Name) and base.id != "TypedDict":
            base_types, base_text = _keywords(vars(sys.modules[options.__module__])[base.id])
            types |= base_types
            text |= base_text
    for node in tree.body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            types[node.target.id] = ast.unparse(node.annotation).replace("'", '"')
    return types, text | comments(options)


def _documented(name: str, thing: Any, keywords: KeywordTables) -> Iterator[str]:
    yield f"### {name}"
    if not isinstance(thing, type):
        yield code(signature(name, thing), "python")
        yield docstring(thing)
        yield keywords.describe(name, thing)
        return
    if not issubclass(thing, msgspec.Struct) and name not in NOT_CONSTRUCTED:
        yield code(signature(name, thing.__init__), "python")
    port = getattr(ports, name, None)
    yield docstring(thing) or (docstring(port) if port else "") or (_head(thing) if name in DESCRIBED_BY_MODULE else "")
    if issubclass(thing, msgspec.Struct):
        yield fields(thing)
    if name in ATTRIBUTES:
        yield table(("attribute", ""), [(f"`{each}`", text) for each, text in ATTRIBUTES[name].items()])
    for method, member in methods(thing):
        called = getattr(port, method, None) if port else None
        text = docstring(member) or (docstring(called) if called is not None else "")
        if isinstance(member, property):
            assert member.fget is not None
            returned = inspect.signature(member.fget).return_annotation
            yield f"**`.{method}`**: `{returned}`" + (f"\n\n{text}" if text else "")
        else:
            call = code(f".{signature(method, member)}".replace(".async ", "async ."), "python")
            parts = (call, text, keywords.describe(f"{name}.{method}", member))
            yield "\n\n".join(part for part in parts if part)


def _head(class_: type) -> str:
    """Return the docstring of a class's module."""
    module = sys.modules[class_.__module__].__doc__ or ""
    return inspect.cleandoc(module)


def events_page() -> str:
    listing = _tabular(events.__doc__ or "")
    classes = [each for each in vars(events).values() if _is(each, events.EventBase) and each.type]
    by_name = {each.__name__: each for each in classes}
    body = [(f"`{kind}`", f"`{name}`", text) for kind, name, text in listing]
    if {kind for kind, _, _ in listing} != {each.type for each in classes}:
        raise SystemExit("record/events.py lists other events than it has")
    base = events.EventBase
    parts = [
        table(("type", "class in `dragoman.events`", "when"), body),
        "## Fields of all events",
        fields(base),
        f"**`.raw`**: {docstring(base.raw)}",
        "On the command line, `dragoman run --json` prints one event per line: `type`, the fields below, and `raw`.",
    ]
    for _, name, text in listing:
        class_ = by_name[name]
        own = [field.name for field in msgspec.structs.fields(base)]
        parts += [f"## {name}", f"`{class_.type}`: {text}.", docstring(class_)]
        if len(msgspec.structs.fields(class_)) > len(own):
            parts.append(fields(class_, leave_out=own))
    return page("Events", *parts)


def _is(thing: object, base: type[T]) -> TypeGuard[type[T]]:
    return isinstance(thing, type) and issubclass(thing, base)


def _tabular(text: str) -> list[tuple[str, str, str]]:
    """Return the lines `type  Class  when` of the module's docstring."""
    found = re.findall(r"^([a-z_.]+) +([A-Z]\w+) {2,}(\S.*)$", text, re.MULTILINE)
    return [(kind, name, text.strip()) for kind, name, text in found]


def errors_page() -> str:
    text = inspect.cleandoc(errors.__doc__ or "")
    first, tree, rest = text.split("\n\n", 2)
    classes = [each for each in vars(errors).values() if _is(each, errors.DragomanError)]
    missing = [each.__name__ for each in classes if each.__name__ not in tree]
    if missing:
        raise SystemExit(f"not in the tree of errors.py: {', '.join(missing)}")
    guidance = [(f"`{each.__name__}`", each.default_guidance) for each in classes if "default_guidance" in vars(each)]
    return page(
        "Errors",
        f"{first} All are in `dragoman.errors`.",
        code(tree),
        rest,
        "## Guidance\n\nThe default of `error.guidance`; many errors have a more exact one:",
        table(("error", "guidance"), guidance),
        "## Attributes",
        table(("error", "has"), [(f"`{each.__name__}`", _attributes(each)) for each in classes if _attributes(each)]),
        "## JSON-RPC errors of agents\n\nA request that an agent answers with an error raises `RequestFailed`, whose "
        "`category` follows from the code:",
        table(
            ("code", "category"),
            [
                (str(value), errors.category_of_code(value))
                for name, value in vars(errors).items()
                if name.isupper() and isinstance(value, int)
            ]
            + [("any other", errors.category_of_code(1))],
        ),
    )


def _attributes(class_: type[errors.DragomanError]) -> str:
    if "__init__" not in class_.__dict__:
        return ""
    tree = ast.parse(textwrap.dedent(inspect.getsource(class_.__init__)))
    stored = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]
    return ", ".join(f"`{node.attr}`" for node in stored)


def config_page() -> str:
    text = comments(config.Config)
    _, judged, *remarks = inspect.cleandoc(access.__doc__ or "").split("\n\n")
    defaults = {field.name: field for field in msgspec.structs.fields(config.Config) if not field.required}
    schema_text, block, after = _split_block(inspect.cleandoc(preset.__doc__ or "").partition("\n\n")[2])
    body = [
        (f"`{key}`", _setting(_default(defaults[key])), setting.expected, text.get(key, ""))
        for key, setting in config.SETTINGS.items()
    ]
    variables = [(f"`{config.PREFIX}{key.upper()}`", f"the setting `{key}`", "") for key in config.SETTINGS]
    return page(
        "Settings",
        "\n\n".join(inspect.cleandoc(config.__doc__ or "").split("\n\n")[1:3]),
        "The tables `[agents.NAME]` are described [below](#agents-agentsname), `[[policy]]` and `[guards]` in "
        "[Policy](../policy.md), "
        "`[watch]` in [Watch](../watch.md), `[worktrees]` in [Worktrees](../worktrees.md). "
        "`folders` lists folders in which clients of the server with the scope "
        "`prompt` may open sessions ([Access](../serve.md#access)).",
        "## config.toml",
        table(("key", "default", "takes", "notes"), body),
        "## Environment variables",
        table(
            ("variable", "means", ""),
            [(f"`{config.HOME_VARIABLE}`", "the home folder, an absolute path", "`~/.dragoman`"), *variables],
        ),
        "An empty variable sets nothing. Agents do not inherit variables that begin with `DRAGOMAN_`, except those "
        "that their preset lists in `env_prefix`. Variables of the demo agent:",
        inspect.cleandoc(demo.__doc__ or "").partition("Environment: ")[2],
        "## Access",
        "How each `access` (`config.toml`, `--access`, `access=`) answers permission requests. "
        + judged.replace("\n", " "),
        *(code(textwrap.dedent(part)) if part.startswith(" ") else part for part in remarks),
        "## Agents: `[agents.NAME]`",
        schema_text,
        code(block, "toml"),
        after,
    )


def _setting(value: object) -> str:
    match value:
        case None:
            return "none"
        case bool():
            return '`"on"`' if value else '`"off"`'
        case float():
            return f'`"{config.format_duration(value)}"`'
        case int():
            return f'`"{value // 2**20}MiB"`' if value >= 2**20 else f'`"{value // 2**10}KiB"`'
        case _:
            return f'`"{value}"`'


def _split_block(text: str) -> tuple[str, str, str]:
    """Return the text before an indented block, the block, and the text after it."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("    "))
    end = next(index for index in range(start, len(lines)) if lines[index] and not lines[index].startswith(" "))
    return (
        "\n".join(lines[:start]).strip(),
        textwrap.dedent("\n".join(lines[start:end])).strip(),
        "\n".join(lines[end:]).strip(),
    )


def command_line_page() -> str:
    return page("Command line", code(_help(command_line, "dragoman")), *_commands(command_line, "dragoman", "##"))


def _commands(group: click.Group, path: str, level: str) -> Iterator[str]:
    context = click.Context(group)
    for name in sorted(group.list_commands(context)):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{level} {path} {name}"
        yield code(_help(command, f"{path} {name}"))
        if isinstance(command, click.Group):
            yield from _commands(command, f"{path} {name}", f"{level}#")


def _help(command: click.Command, name: str) -> str:
    context = click.Context(command, info_name=name, terminal_width=COLUMNS, max_content_width=COLUMNS)
    return command.get_help(context)


def agents_page() -> str:
    presets = preset.load_presets(config.load(home=ROOT / "no-such-folder", environ={}))
    parts = [
        "The agents that have a preset (in `src/dragoman/agents/presets/`). `dragoman agents` shows which of them are "
        "installed. Any other program that speaks the Agent Client Protocol works by its command line, "
        '`--agent-command "my-agent --acp"`, or with a table in '
        "[config.toml](reference/config.md#agents-agentsname).",
        "A quirk is a behaviour of an agent, in the named versions, that differs from the protocol. Dragoman handles "
        "all of them; they are listed so that you know what to expect.",
        table(
            ("name", "agent", "command"),
            [(f"[`{id}`](#{id})", each.name, f"`{_line(each.command_lines[0])}`") for id, each in presets.items()],
        ),
    ]
    done = json.loads((ROOT / "docs/agents.json").read_text(encoding="utf-8"))  # by `pytest tests/agents --write-table`
    parts += _what_they_do(done)
    for id, each in presets.items():
        facts = [("start", f"`{_line(each.command_lines[0])}`")]
        facts += [("or", f"`{_line(line)}`") for line in each.alternatives]
        facts += [("install", f"`{each.install}`" if id != "demo" else each.install)] if each.install else []
        facts += [("note", each.note)] if each.note else []
        facts += [("needs", ", ".join(f"`{name}`" for name in each.needs))] if each.needs else []
        facts += [("its variables", ", ".join(f"`{name}…`" for name in each.env_prefix))] if each.env_prefix else []
        facts += [("configured by", f"`{each.config_env_var}`, as JSON")] if each.config_env_var else []
        facts += [("login by", ", ".join(f"`{way.env}` (`{way.method}`)" for way in each.auth))] if each.auth else []
        facts += [("offered by Dragoman", _offered(each))]
        facts += [("isolated, it gets", _isolated(each))]
        facts += [("website", f"<{each.website}>")] if each.website else []
        parts += [f"## {id}", f"**{each.name}.** {each.description}", table(("", ""), facts)]
        if each.quirks:
            quirks = [(f"`{quirk.id}`", ", ".join(quirk.versions), quirk.note) for quirk in each.quirks]
            parts.append(table(("quirk", "seen in", "description"), quirks))
        if lacking := [
            (_words(case), _reason(id, done[id][case])) for case in _cases(done) if done.get(id, {}).get(case)
        ]:
            parts.append(table(("not supported", "why"), lacking))
    return page("Agents", *parts)


def _what_they_do(done: dict[str, dict[str, str]]) -> Iterator[str]:
    """Return the table of the tests with real agents."""
    agents = sorted(done)
    yield (
        "## What each agent supports\n\nResults of our tests (`tests/agents`), in which these agents run with a "
        "scripted model. ✓ supported; – not supported, and the agent's section below says why; ? not tested."
    )
    body = []
    for case in _cases(done):
        marks = {"": "✓", None: "?"}
        body.append((_words(case), *(marks.get(done[agent].get(case), "–") for agent in agents)))
    yield table(("case", *(f"[{agent}](#{agent})" for agent in agents)), body)


def _cases(done: dict[str, dict[str, str]]) -> list[str]:
    """Return the cases in the order of the tests, from simple to special, without those that are no longer tested."""
    found = []
    for name in ("sessions", "real_agents", "mcp", "capabilities", "death"):
        source = (ROOT / f"tests/agents/test_{name}.py").read_text(encoding="utf-8")
        for test in re.findall(r"^async def test_(\w+)\(", source, re.MULTILINE):
            found += sorted({case for cases in done.values() for case in cases if case.split(" ")[0] == test})
    return found


def _words(case: str) -> str:
    name, _, parameter = case.partition(" ")
    return name.replace("_", " ") + (f" ({parameter})" if parameter else "")


def _reason(agent: str, reason: str) -> str:
    return reason.removeprefix(f"{agent} ")


def _line(words: Iterable[str]) -> str:
    # Where our own interpreter is differs from machine to machine.
    return " ".join("python" if word == sys.executable else word for word in words)


def _offered(each: preset.Preset) -> str:
    offers = (("reading files", each.fs.read), ("writing files", each.fs.write), ("terminals", each.terminal))
    return ", ".join(word for word, on in offers if on) or "nothing: it reads, writes and runs commands by itself"


def _isolated(each: preset.Preset) -> str:
    needs = each.isolation
    files = [*needs.login, *(f"{file} ({', '.join(keys)})" for file, keys in needs.settings.items())]
    parts = [f"`{text}`" for text in (*files, *needs.environment)]
    return ", ".join(parts) or "nothing of yours"


PAGES: dict[str, Callable[[], str]] = {
    "docs/reference/python.md": python_page,
    "docs/reference/events.md": events_page,
    "docs/reference/errors.md": errors_page,
    "docs/reference/config.md": config_page,
    "docs/reference/command-line.md": command_line_page,
    "docs/agents.md": agents_page,
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Write docs/reference/ and docs/agents.md from the code.")
    parser.add_argument("--check", action="store_true", help="write nothing; end with 1 where a page is out of date")
    given = parser.parse_args()
    os.environ["COLUMNS"] = str(COLUMNS)
    stale = []
    for name, write in PAGES.items():
        path, text = ROOT / name, write()
        if path.exists() and path.read_text(encoding="utf-8") == text:
            continue
        stale.append(name)
        if not given.check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    if stale and given.check:
        print(f"out of date: {', '.join(stale)}\nRun: python scripts/generate_reference.py", file=sys.stderr)
        return 1
    print(f"written: {', '.join(stale)}" if stale else "all pages are up to date")
    return 0


if __name__ == "__main__":
    sys.exit(main())
