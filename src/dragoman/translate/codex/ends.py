"""The ends of calls, as events and items tell them: with more than the output that the model was given.

Events of older versions and items of newer ones have the same fields, in the same words.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from dragoman.translate.codex import commands, prompts, records, tools
from dragoman.translate.codex.calls import Calls
from dragoman.translate.codex.outputs import Result
from dragoman.translate.codex.paths import local
from dragoman.translate.codex.where import Where
from dragoman.wire.vocabulary import Content, ContentBlock, TextContent

_FAILED: Final = frozenset({"failed", "declined", "interrupted", "rejected"})

Told: TypeAlias = records.Payload | records.Item


class _Invocation(msgspec.Struct, frozen=True, gc=False):
    server: str = ""
    tool: str = ""
    arguments: Any = None


class _McpResult(msgspec.Struct, frozen=True, gc=False):
    good: msgspec.Raw = msgspec.field(default=records.ABSENT, name="Ok")
    bad: msgspec.Raw = msgspec.field(default=records.ABSENT, name="Err")


class _McpAnswer(msgspec.Struct, frozen=True, gc=False):
    content: msgspec.Raw = records.ABSENT
    is_error: bool | None = msgspec.field(default=None, name="isError")


def command(calls: Calls, where: Where, call_id: str | None, told: Told) -> None:
    failed = bool(told.exit_code) or _status(told) in _FAILED
    result = Result(told.aggregated_output or "", told.exit_code, failed=failed)
    line = commands.line_of(records.plain(told.command))
    actions = commands.actions(told.parsed_cmd)
    calls.command_ended(where, _id(call_id, where), line, local(told.cwd or ""), actions, result)


def patch(calls: Calls, where: Where, call_id: str | None, told: Told, cwd: str) -> None:
    failed = told.success is False or _status(told) in _FAILED
    words = (told.stderr or told.stdout) if failed else told.stdout
    calls.patch_ended(where, _id(call_id, where), told.changes, cwd, failed=failed, words=words)


def mcp(calls: Calls, where: Where, call_id: str | None, invocation: msgspec.Raw, result: msgspec.Raw) -> None:
    gave = records.read(result, _McpResult, _McpResult())
    _mcp(calls, where, call_id, records.read(invocation, _Invocation, _Invocation()), gave)


def mcp_item(calls: Calls, where: Where, item: records.Item) -> None:
    called = _Invocation(item.server, item.tool, records.plain(item.arguments))
    _mcp(calls, where, item.id, called, _McpResult(item.result, item.error))


def _mcp(calls: Calls, where: Where, call_id: str | None, called: _Invocation, gave: _McpResult) -> None:
    answer = records.read(gave.good, _McpAnswer, _McpAnswer())
    error = records.plain(gave.bad)
    # Blocks of both protocols are alike.
    blocks = records.read(answer.content, tuple[ContentBlock, ...], None)
    if blocks is None:
        blocks = prompts.of_parts(records.parts(answer.content))
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else None
        blocks = (TextContent(text=str(message or error)),)
    calls.tool_ended(
        where,
        _id(call_id, where),
        tools.mcp(called.server, called.tool, called.arguments),
        tuple(Content(content=block) for block in blocks),
        failed=error is not None or bool(answer.is_error),
        raw_output={"result": gave.good, "error": error},
    )


def dynamic(calls: Calls, where: Where, call_id: str | None, told: Told) -> None:
    """A tool that the program which embeds Codex offers."""
    blocks = prompts.of_parts(records.parts(told.content_items))
    calls.tool_ended(
        where,
        _id(call_id, where),
        tools.Shown(
            name=f"{told.namespace or ''}{told.tool}",
            title=told.tool,
            kind="execute",
            raw_input={"arguments": told.arguments},
        ),
        tuple(Content(content=block) for block in blocks),
        failed=told.success is False or records.plain(told.error) is not None,
        raw_output=None,
    )


def image(calls: Calls, where: Where, call_id: str | None, told: Told) -> None:
    """An image that the model made."""
    data = records.string(told.result)
    blocks: list[ContentBlock] = []
    if told.revised_prompt:
        blocks.append(TextContent(text=f"Revised prompt: {told.revised_prompt}"))
    if data:
        blocks.append(prompts.image(f"data:image/png;base64,{data}"))
    calls.at_once(
        where,
        _id(call_id, where),
        tools.Shown(name="image_generation", title="Image generation"),
        "failed" if _status(told) in _FAILED else "completed",
        tuple(Content(content=block) for block in blocks),
    )


def _status(told: Told) -> str:
    return told.status if isinstance(told, records.Item) else records.string(told.status)


def _id(call_id: str | None, where: Where) -> str:
    return call_id or f"codex:{where.position}"
