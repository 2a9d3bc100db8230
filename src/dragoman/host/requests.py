"""The agent's requests as `PermissionRequest`s, on which the policy decides or a person is asked."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from dragoman.host.permission import Option, PermissionRequest
from dragoman.record import rows
from dragoman.wire import lenient
from dragoman.wire import vocabulary as acp
from dragoman.workspace import Workspace

# What the session knows of a tool call, by the agent's id: its row, and the title with which it was first reported.
Known: TypeAlias = Callable[[str], rows.ToolCall | None]
FirstTitle: TypeAlias = Callable[[str], str | None]

# Keys of a tool's input that hold a command, and its arguments where they are given apart.
COMMAND_KEYS = ("command", "cmd")
ARGUMENT_KEYS = ("args", "arguments", "argv")

# Our own options, for requests of the agent to the host.
_OURS = (
    Option("allow", "Allow", "allow_once"),
    Option("allow-always", "Always allow in this workspace", "allow_always"),
    Option("reject", "Reject", "reject_once"),
    Option("reject-always", "Never allow it in this workspace", "reject_always"),
)


class _WireOption(msgspec.Struct, frozen=True, rename="camel"):
    # More open than the vocabulary: one option of a kind we do not know must not cost the others.
    option_id: str
    kind: str
    name: str = ""


class _WireParams(msgspec.Struct, frozen=True, rename="camel"):
    tool_call: acp.ToolCallUpdate
    options: tuple[_WireOption, ...]


class AgentTools(msgspec.Struct, frozen=True):
    """Facts about an agent's tools that its requests leave out, from its preset."""

    name_fields: tuple[str, ...] = ()  # where a tool call names its tool, where not in `name`: `_meta.toolName`
    kinds: dict[str, str] = {}  # of its own tools, by name: it asks about them without a kind
    files_through_us: bool = False  # they write files only through us


UNKNOWN_TOOLS = AgentTools()


class Requests(msgspec.Struct, frozen=True):
    """The questions of one session."""

    session_id: str
    agent: str
    workspace: Workspace
    tools: AgentTools = UNKNOWN_TOOLS

    def of_tool_call(
        self, params: msgspec.Raw, known_call: Known | None, first_title: FirstTitle | None = None
    ) -> PermissionRequest:
        """Read `session/request_permission`. Fields that it leaves out are taken from the tool call, where it is known.

        Raises `msgspec.MsgspecError` where it cannot be read.
        """
        request = lenient.decode(params, _WireParams)
        call = request.tool_call
        known = known_call(call.tool_call_id) if known_call is not None else None
        content: list[acp.ToolCallContent] = [*(call.content or ())]
        locations: list[acp.ToolCallLocation] = [*(call.locations or ())]
        raw_input = call.raw_input
        if known is not None:
            # Added, never replaced: it may still touch the files that it named before.
            content += (item for item in known.content if item not in content)
            locations += (item for item in known.locations if item not in locations)
            raw_input = _added(raw_input, known.raw_input)
        diffs = tuple(item for item in content if isinstance(item, acp.Diff))
        paths = [*(location.path for location in locations), *(diff.path for diff in diffs)]
        name = call.name or (known.name if known else None) or _name_in(call.meta, self.tools.name_fields)
        title = call.title or (known.title if known else "")
        kind = call.kind or (known.kind if known else "other")
        if kind == "other":
            kind = self.tools.kinds.get(name or title, kind)
        return PermissionRequest(
            session_id=self.session_id,
            agent=self.agent,
            tool_call_id=call.tool_call_id,
            title=title or name or call.tool_call_id,
            kind=kind,
            name=name,
            first_title=(first_title(call.tool_call_id) or "") if first_title is not None else "",
            files_through_us=self.tools.files_through_us,
            paths=_absolute(self.workspace, paths),
            diffs=diffs,
            command=command_of(raw_input),
            raw_input=raw_input,
            options=tuple(
                Option(option.option_id, option.name or option.option_id, option.kind) for option in request.options
            ),
        )

    def of_read(self, path: Path) -> PermissionRequest:
        """Make the question of `fs/read_text_file`; `path` is resolved."""
        return PermissionRequest(
            session_id=self.session_id,
            agent=self.agent,
            tool_call_id=None,
            origin="files",
            title=f"Read {self.workspace.relative_path(path)}",
            kind="read",
            paths=(str(path),),
            options=_OURS,
        )

    def of_write(self, path: Path, old_text: str | None, new_text: str) -> PermissionRequest:
        """Make the question of `fs/write_text_file`; `path` is resolved."""
        return PermissionRequest(
            session_id=self.session_id,
            agent=self.agent,
            tool_call_id=None,
            origin="files",
            title=f"Write {self.workspace.relative_path(path)}",
            kind="edit",
            paths=(str(path),),
            diffs=(acp.Diff(path=str(path), old_text=old_text, new_text=new_text),),
            options=_OURS,
        )

    def of_command(
        self, command: str, args: Sequence[str], env: Mapping[str, str], cwd: Path, *, shell: bool
    ) -> PermissionRequest:
        """Make the question of `terminal/create`. It includes the environment, which can change what a command does.

        `shell`: the command is a line of shell, else it is a program's name, whatever characters are in it.
        """
        line = command if shell else shlex.join([command, *args])
        return PermissionRequest(
            session_id=self.session_id,
            agent=self.agent,
            tool_call_id=None,
            origin="terminals",
            title=line,
            kind="execute",
            command=line,
            raw_input={"command": command, "args": list(args), "env": dict(env), "cwd": str(cwd)},
            options=_OURS,
        )


def _name_in(meta: dict[str, Any] | None, fields: Iterable[str]) -> str | None:
    """Return the first text at one of these places in a tool call's `_meta`: `_meta.goose.toolCall.toolName`."""
    for field in fields:
        value: Any = {"_meta": meta}
        for key in field.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, str) and value:
            return value
    return None


def command_of(raw_input: Any) -> str | None:
    """Return the command in a tool's input with its arguments, as typed in a shell; None where there is none."""
    if not isinstance(raw_input, dict):
        return None
    commands = {key: raw_input[key] for key in COMMAND_KEYS if raw_input.get(key) not in (None, "", [])}
    if not commands:
        return None
    first, *others = commands.values()
    arguments = {key: raw_input[key] for key in ARGUMENT_KEYS if raw_input.get(key) not in (None, "", [])}
    match first, *(other for other in others if other != first), *arguments.values():
        case (str(line),):
            return line
        case (list(words),) if _are_texts(words):
            return shlex.join(words)
        case str(program), list(words) if arguments and _are_texts(words):
            return shlex.join((program, *words))
        case list(words), list(more) if arguments and _are_texts((*words, *more)):
            return shlex.join((*words, *more))
        case _:  # not readable as a command, but there is one: it must not pass for something else
            whole = {**commands, **arguments}
            return msgspec.json.encode(whole if len(whole) > 1 else first).decode()


def _are_texts(words: Iterable[object]) -> bool:
    return all(isinstance(word, str) for word in words)


def _added(raw_input: Any, known: Any) -> Any:
    """Return the input of a request; if it leaves the command out, with the fields that are known of the tool call."""
    if raw_input in (None, {}):
        return known
    if isinstance(raw_input, dict) and isinstance(known, dict) and command_of(known) and not command_of(raw_input):
        return {**known, **raw_input}
    return raw_input


def _absolute(workspace: Workspace, paths: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(os.path.join(workspace.cwd, path) for path in paths))
