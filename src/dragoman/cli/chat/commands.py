"""The meaning of a typed line: the chat's own commands, and `@path`, which attaches a file.

A command is `/` and a word. Other words are commands of the agent, or prompt templates, and are sent as they are; so is
a line with a space before it.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from dragoman.cli.command import save_path
from dragoman.cli.options import ACCESS_LEVELS
from dragoman.cli.output import STDOUT, is_dumb
from dragoman.cli.plan import option_value
from dragoman.cli.screen import Span
from dragoman.cli.text import columns, context_part, cost_part, one_line, wrapped
from dragoman.config import load
from dragoman.document import all_near
from dragoman.errors import InputError
from dragoman.fileio import atomic_write
from dragoman.host.policy.access import parse_access
from dragoman.journal import notes as journal_notes
from dragoman.journal.markdown import session_markdown
from dragoman.journal.protocols import Journal
from dragoman.journal.sessions import session_name, short_ids, top_level
from dragoman.record.fold import SessionFold
from dragoman.record.rows import Choice, Setting
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import FileAttachment, LinkAttachment, Part
from dragoman.session.session import Session

PREFIX = "/"

# A path is no command and is sent as it is.
_COMMAND = re.compile(r"/([a-z]+)(?:[ \t]+(.*))?")

# A word that resembles a command of ours this much is taken for a misspelt one, unless it is one of the agent's.
_LIKENESS = 0.75


class Command(msgspec.Struct, frozen=True):
    name: str
    arguments: str
    about: str


COMMANDS = (
    Command("help", "", "show this list"),
    Command("model", "[NAME]", "list the agent's models, or switch"),
    Command("mode", "[NAME]", "list its modes, or switch"),
    Command("option", "[ID [VALUE]]", "list its options, or set one"),
    Command("access", "[LEVEL]", "show what it may do without asking, or change it"),
    Command("usage", "", "show tokens, context and cost of this session"),
    Command("new", "", "begin a new session; this one stays in the journal"),
    Command("sessions", "", "list the latest sessions in this folder"),
    Command("rename", "TITLE", "give this session a title"),
    Command("export", "[FILE]", "write the conversation to a Markdown file"),
    Command("copy", "", "copy the last answer to the clipboard"),
    Command("save", "FILE", "save the session, for `dragoman chat --resume FILE`"),
    Command("agents", "", "list installed agents"),
    Command("skills", "", "list the skills and prompt templates of this folder"),
    Command("cancel", "", "cancel the run and the queued prompts"),
    Command("restart", "", "restart the agent and resume the session"),
    Command("quit", "", "leave the chat"),
)

_ALIASES = {"exit": "quit"}

KEYS = (
    ("@path", "attaches the file"),
    ("Alt-Enter", "a new line; so does \\ before Enter"),
    ("Tab", "completes /commands and @files"),
    ("Up, Ctrl-R", "earlier prompts; search in them"),
    ("Ctrl-C", "cancels the run; twice kills the agent"),
    ("Ctrl-D", "leaves"),
)

_CATEGORIES = {"model": "model", "mode": "mode"}

TOKEN_NAMES = {
    "input_tokens": "input tokens",
    "cached_tokens": "cached tokens",
    "output_tokens": "output tokens",
    "thought_tokens": "thought tokens",
}
NOT_REPORTED = "not reported"

MAX_LISTED_SESSIONS = 10
MAX_TITLE_CHARACTERS = 200


class Chat(Protocol):
    """The chat that commands act on."""

    @property
    def session(self) -> Session: ...
    @property
    def width(self) -> int: ...
    @property
    def journal(self) -> Journal | None:
        """The journal that has the session; None where it is off."""
        ...

    def say(self, *spans: Span) -> None:
        """Print a line of its own."""
        ...

    def cancel(self) -> None: ...
    async def restart(self) -> None: ...
    async def begin_new(self) -> None: ...
    def save_as(self, text: str) -> None: ...
    def leave(self) -> None: ...


def read_command(text: str, agent_commands: Iterable[str] = ()) -> tuple[str, str] | None:
    """Split a command of ours into its name and arguments; None for a line that goes to the agent.

    InputError for a word that is nearly one of ours, and none of the agent's.
    """
    match = _COMMAND.fullmatch(text.rstrip())
    if match is None:
        return None
    name, rest = _ALIASES.get(match[1], match[1]), (match[2] or "").strip()
    names = [command.name for command in COMMANDS]
    if name in names:
        return name, rest
    near = all_near(name, names, _LIKENESS) if name not in agent_commands else []
    if not near:
        return None
    meant = " or ".join(f"{PREFIX}{each}" for each in near)
    raise InputError(
        f"there is no command {PREFIX}{one_line(name, 30)}",
        guidance=f"Did you mean {meant}? To send it to the agent, put a space before it.",
    )


async def run_command(chat: Chat, name: str, rest: str) -> None:
    """Run a command. Raises a DragomanError that says what is wrong."""
    acts: dict[str, Callable[[], Awaitable[None] | None]] = {
        "help": lambda: _help(chat),
        "model": lambda: _switch(chat, "model", rest),
        "mode": lambda: _switch(chat, "mode", rest),
        "option": lambda: _option(chat, rest),
        "access": lambda: _access(chat, rest),
        "usage": lambda: _usage(chat),
        "new": chat.begin_new,
        "sessions": lambda: _sessions(chat),
        "rename": lambda: _rename(chat, rest),
        "export": lambda: _export(chat, rest),
        "copy": lambda: _copy(chat),
        "save": lambda: chat.save_as(rest),
        "agents": lambda: _agents(chat),
        "skills": lambda: _skills(chat),
        "cancel": chat.cancel,
        "restart": chat.restart,
        "quit": chat.leave,
    }
    if (pending := acts[name]()) is not None:
        await pending


def choices(name: str, typed: str, fold: SessionFold) -> Sequence[Choice]:
    """Choices for the next word of a command."""
    words = typed.split()
    if name == "access" and not words:
        return [Choice(level, level, about) for level, about in ACCESS_LEVELS.items()]
    if name in _CATEGORIES and not words:
        setting = fold.setting(_CATEGORIES[name])
        return _values(setting) if setting is not None else ()
    if name == "option" and not words:
        return [Choice(setting.id, setting.name) for setting in fold.settings.values()]
    if name == "option" and len(words) == 1 and words[0] in fold.settings:
        return _values(fold.settings[words[0]])
    return ()


def _values(setting: Setting) -> Sequence[Choice]:
    if isinstance(setting.current, bool):
        return Choice("on", "on"), Choice("off", "off")
    return setting.choices


def _named(setting: Setting, text: str) -> str:
    """Return the value that the text means: itself, or the only one with that name."""
    if any(choice.value == text for choice in setting.choices):
        return text
    meant = {choice.value for choice in setting.choices if text.lower() in (choice.value.lower(), choice.name.lower())}
    return meant.pop() if len(meant) == 1 else text


def _help(chat: Chat) -> None:
    rows = [(f"{PREFIX}{command.name} {command.arguments}".rstrip(), command.about) for command in COMMANDS]
    own = {command.name for command in COMMANDS}
    agent_names = [command.name for command in chat.session.fold.commands]
    listed = ", ".join(f"{PREFIX}{name}" for name in agent_names if name not in own)
    rows += [("/…", f"the agent's own commands: {listed}" if listed else "the agent's own commands"), *KEYS]
    if hidden := [name for name in agent_names if name in own]:
        names = ", ".join(f"{PREFIX}{name}" for name in hidden)
        rows.append(("a space first", f"sends the line to the agent, which has a {names} of its own"))
    _table(chat, rows)


async def _switch(chat: Chat, category: str, rest: str) -> None:
    setting = chat.session.fold.setting(category)
    if setting is None:
        raise InputError(f"{chat.session.agent_name} offers no {category}s to choose from")
    if not rest:
        _list(chat, setting)
        return
    value = _named(setting, rest)
    await (chat.session.set_model(value) if category == "model" else chat.session.set_mode(value))
    chat.say(Span(f"{category}: {one_line(value, chat.width - 8)}", "dim"))


async def _option(chat: Chat, rest: str) -> None:
    settings = chat.session.fold.settings
    option_id, _, text = rest.partition(" ")
    if not option_id:
        if not settings:
            raise InputError(f"{chat.session.agent_name} has no options")
        _table(chat, [(setting.id, _current(setting)) for setting in settings.values()])
        return
    if not text.strip() and option_id in settings:
        _list(chat, settings[option_id])
        return
    value: str | bool = option_value(chat.session, option_id, text.strip())
    if isinstance(value, str) and option_id in settings:
        value = _named(settings[option_id], value)
    await chat.session.set_option(option_id, value)
    chat.say(Span(one_line(f"{option_id}: {_word(value)}", chat.width - 1), "dim"))


def _access(chat: Chat, rest: str) -> None:
    if not rest:
        _table(chat, ACCESS_LEVELS.items(), marked=chat.session.config.access)
        return
    chat.session.set_access(parse_access(rest))
    chat.say(Span(f"access: {chat.session.config.access}", "dim"))


def _usage(chat: Chat) -> None:
    """Print the figures of all runs, as far as the agent reports them."""
    fold = chat.session.fold
    reported = [run.usage for run in fold.runs.values() if run.usage is not None]
    rows = [("runs", f"{len(fold.runs):,}")]
    for name, words in TOKEN_NAMES.items():
        counts = [count for usage in reported if (count := getattr(usage, name)) is not None]
        is_complete = len(counts) == len(fold.runs)
        if counts and (is_complete or sum(counts)):  # "at least 0" says nothing
            rows.append((words, f"{'' if is_complete else 'at least '}{sum(counts):,}"))
    rows.append(("context", context_part(fold.usage) or NOT_REPORTED))
    rows.append(("cost", cost_part(fold.usage) or NOT_REPORTED))
    _table(chat, rows)


async def _sessions(chat: Chat) -> None:
    journal = _journal(chat)
    every = await journal.sessions()
    short, cwd = short_ids(every), str(chat.session.config.workspace.cwd)
    here = [session for session in top_level(every) if session.cwd == cwd and session.runs][:MAX_LISTED_SESSIONS]
    if not here:
        raise InputError("no session in this folder has a prompt yet")
    _table(chat, [(short[row.id], session_name(row)) for row in here], marked=short.get(chat.session.id))
    chat.say(Span("To resume one: dragoman chat --resume ID", "dim"))


async def _rename(chat: Chat, rest: str) -> None:
    _journal(chat)
    if not rest:
        raise InputError("/rename needs a title", guidance="For example: /rename Fix the flaky test")
    title = one_line(rest, MAX_TITLE_CHARACTERS)
    await chat.session.record_note(journal_notes.write(journal_notes.SessionRenamed(title=title)))
    chat.say(Span(one_line(f"title: {title}", chat.width - 1), "dim"))


async def _export(chat: Chat, rest: str) -> None:
    journal = _journal(chat)
    path = save_path(rest or f"session-{chat.session.id}.md", "/export")
    text = "".join(session_markdown(await journal.rows(chat.session.id)))
    try:
        atomic_write(path, text.encode("utf-8", "replace"))
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
    chat.say(Span(one_line(f"Exported to {path}", chat.width - 1), "dim"))


def _copy(chat: Chat) -> None:
    """Ask the terminal to put the last answer on the clipboard (OSC 52)."""
    answers = [message.text for message in chat.session.fold.messages if message.kind == "assistant" and message.text]
    if not answers:
        raise InputError("there is no answer to copy yet")
    if is_dumb():
        raise InputError("this terminal has no clipboard")
    data = base64.b64encode(answers[-1].encode("utf-8", "replace"))
    os.write(STDOUT, b"\x1b]52;c;" + data + b"\x07")
    chat.say(Span("Copied, if the terminal allows it.", "dim"))


def _journal(chat: Chat) -> Journal:
    if chat.journal is None:
        raise InputError("this session is not recorded: the journal is off")
    return chat.journal


def _list(chat: Chat, setting: Setting) -> None:
    values = _values(setting)
    if not values:
        chat.say(Span(one_line(f"{setting.id}: {_current(setting)}", chat.width - 1)))
    now = _word(setting.current)
    _table(
        chat,
        [
            (choice.value, choice.description or (choice.name if choice.name != choice.value else ""))
            for choice in values
        ],
        marked=now,
    )


def _current(setting: Setting) -> str:
    return _word(setting.current) if setting.current is not None else "not reported"


def _word(value: str | bool | None) -> str:
    return ("off", "on")[value] if isinstance(value, bool) else str(value)


async def _agents(chat: Chat) -> None:
    from dragoman.agents.find import survey
    from dragoman.agents.preset import load_presets
    from dragoman.cli.agents import describe_state

    # Invalid settings are left out: the agents can be listed without them.
    settings = load(on_error=lambda error: None)
    findings = await survey(load_presets(settings, lambda error: None), environ=dict(os.environ))
    found = [finding for finding in findings if finding.state != "missing"]
    _table(chat, [(finding.preset.id, describe_state(finding)) for finding in found])
    if missing := ", ".join(finding.preset.id for finding in findings if finding.state == "missing"):
        for line in wrapped(f"not installed: {missing}", chat.width - 1):
            chat.say(Span(line, "dim"))
    chat.say(Span("To talk to another agent: dragoman chat -a NAME", "dim"))


def _skills(chat: Chat) -> None:
    available = chat.session.available_context()
    rows = [
        (item.skill.name, f"{item.state}: {item.skill.description}".removesuffix(": "))
        for item in available.skills
        if not item.skill.problem
    ]
    rows += [(f"{PREFIX}{template.name}", template.description) for template in available.usable_templates().values()]
    if not rows:
        raise InputError(
            "there are no skills and no prompt templates here",
            guidance="`dragoman skills list` shows where they belong.",
        )
    _table(chat, rows)


def _table(chat: Chat, rows: Iterable[tuple[str, str]], marked: str | None = None) -> None:
    """Print two columns, one row with a star; on a narrow terminal the second column goes below the first."""
    listed = [(one_line(left, chat.width - 3), one_line(right, _MAX_DESCRIPTION_CHARACTERS)) for left, right in rows]
    wide = max((columns(left) for left, _ in listed), default=0)
    beside = chat.width - wide - 5 >= _MIN_DESCRIPTION_COLUMNS
    indent = wide + 4 if beside else 4
    for left, right in listed:
        first, *rest = wrapped(right, chat.width - indent)
        mark = Span("* " if left == marked else "  ", "good")
        if beside:
            chat.say(mark, Span(left + " " * (wide - columns(left) + 2)), Span(first, "dim"))
        else:
            chat.say(mark, Span(left))
            rest = [first, *rest]
        for line in rest:
            chat.say(Span(f"{'':{indent}}{line}", "dim"))


# Columns that a description needs beside its name.
_MIN_DESCRIPTION_COLUMNS = 20
# Characters of an agent's description of a model or option: a few lines.
_MAX_DESCRIPTION_CHARACTERS = 200


# A longer file is attached as a link, and the agent reads what it needs of it; most source files are shorter.
MAX_ATTACHED_BYTES = 256 * 1024

# An @ inside a word is no mention: mail addresses have one.
_MENTION = re.compile(r'(?<!\S)@(?:"([^"\n]+)"|(\S+))')
# Characters that may follow a path in a sentence; they are no part of it where the path exists without them.
_PUNCTUATION = ".,;:!?)]}'\""


class Mention(msgspec.Struct, frozen=True):
    name: str  # as it was typed
    path: Path


def mentions(text: str, cwd: Path) -> tuple[Mention, ...]:
    """Return the files and folders that a prompt mentions, each once; an @word that names nothing is just a word."""
    return tuple({mention.path: mention for mention in _mentions(text, cwd)}.values())


def prompt_parts(text: str, attached: tuple[Mention, ...], capabilities: Capabilities) -> tuple[Part, ...]:
    """Return the prompt as it was typed and its attachments: each file whole, or as a link."""
    return (text, *(_part(mention, capabilities) for mention in attached))


def _mentions(text: str, cwd: Path) -> Iterator[Mention]:
    for match in _MENTION.finditer(text):
        name = match[1] or match[2]
        for candidate in (name, name.rstrip(_PUNCTUATION)):
            if candidate and (path := _existing(candidate, cwd)) is not None:
                yield Mention(candidate, path)
                break


def _existing(name: str, cwd: Path) -> Path | None:
    try:
        path = cwd / Path(name).expanduser()
        return path.resolve() if path.is_file() or path.is_dir() else None
    except (OSError, RuntimeError, ValueError):  # too long, no such user, a NUL
        return None


def _part(mention: Mention, capabilities: Capabilities) -> Part:
    if capabilities.embedded_context and _is_short_text(mention.path):
        return FileAttachment(mention.path)
    return LinkAttachment(mention.path.as_uri(), mention.name)


def _is_short_text(path: Path) -> bool:
    try:
        if not path.is_file() or path.stat().st_size > MAX_ATTACHED_BYTES:
            return False
        path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return False
    return True
