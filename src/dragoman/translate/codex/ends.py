"""The ends of calls, as events and items tell them: with more than the output that the model was given.

Events of older versions and items of newer ones have the same fields, in the same words.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import msgspec

from dragoman.translate.codex import commands, prompts, records, tools
from dragoman.translate.codex.calls import Calls
from dragoman.translate.codex.outputs import Result
from dragoman.translate.codex.records import RecordRef, local
from dragoman.wire.vocabulary import Content, ContentBlock, TextContent

_FAILED: Final = frozenset({"failed", "declined", "interrupted", "rejected"})

CallEvent: TypeAlias = records.Payload | records.Item


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


def command(calls: Calls, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
    failed = bool(event.exit_code) or _status(event) in _FAILED
    result = Result(event.aggregated_output or "", event.exit_code, failed=failed)
    line = commands.line_of(records.plain(event.command))
    decode_actions = commands.decode_actions(event.parsed_cmd)
    calls.end_command(ref, _id(call_id, ref), line, local(event.cwd or ""), decode_actions, result)


def patch(calls: Calls, ref: RecordRef, call_id: str | None, event: CallEvent, cwd: str) -> None:
    failed = event.success is False or _status(event) in _FAILED
    words = (event.stderr or event.stdout) if failed else event.stdout
    calls.end_patch(ref, _id(call_id, ref), event.changes, cwd, failed=failed, words=words)


def mcp(calls: Calls, ref: RecordRef, call_id: str | None, invocation: msgspec.Raw, result: msgspec.Raw) -> None:
    outcome = records.read(result, _McpResult, _McpResult())
    _mcp(calls, ref, call_id, records.read(invocation, _Invocation, _Invocation()), outcome)


def mcp_item(calls: Calls, ref: RecordRef, item: records.Item) -> None:
    invocation = _Invocation(item.server, item.tool, records.plain(item.arguments))
    _mcp(calls, ref, item.id, invocation, _McpResult(item.result, item.error))


def _mcp(calls: Calls, ref: RecordRef, call_id: str | None, invocation: _Invocation, result: _McpResult) -> None:
    answer = records.read(result.good, _McpAnswer, _McpAnswer())
    error = records.plain(result.bad)
    # Blocks of both protocols are alike.
    blocks = records.read(answer.content, tuple[ContentBlock, ...], None)
    if blocks is None:
        blocks = prompts.of_parts(records.parts(answer.content))
    if error is not None:
        message = error.get("message") if isinstance(error, dict) else None
        blocks = (TextContent(text=str(message or error)),)
    calls.end_tool(
        ref,
        _id(call_id, ref),
        tools.mcp(invocation.server, invocation.tool, invocation.arguments),
        tuple(Content(content=block) for block in blocks),
        failed=error is not None or bool(answer.is_error),
        raw_output={"result": result.good, "error": error},
    )


def dynamic(calls: Calls, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
    """A tool that the program which embeds Codex offers."""
    blocks = prompts.of_parts(records.parts(event.content_items))
    calls.end_tool(
        ref,
        _id(call_id, ref),
        tools.ToolDisplay(
            name=f"{event.namespace or ''}{event.tool}",
            title=event.tool,
            kind="execute",
            raw_input={"arguments": event.arguments},
        ),
        tuple(Content(content=block) for block in blocks),
        failed=event.success is False or records.plain(event.error) is not None,
        raw_output=None,
    )


def image(calls: Calls, ref: RecordRef, call_id: str | None, event: CallEvent) -> None:
    """An image that the model made."""
    data = records.string(event.result)
    blocks: list[ContentBlock] = []
    if event.revised_prompt:
        blocks.append(TextContent(text=f"Revised prompt: {event.revised_prompt}"))
    if data:
        blocks.append(prompts.image(f"data:image/png;base64,{data}"))
    calls.add_finished(
        ref,
        _id(call_id, ref),
        tools.ToolDisplay(name="image_generation", title="Image generation"),
        "failed" if _status(event) in _FAILED else "completed",
        tuple(Content(content=block) for block in blocks),
    )


def _status(event: CallEvent) -> str:
    return event.status if isinstance(event, records.Item) else records.string(event.status)


def _id(call_id: str | None, ref: RecordRef) -> str:
    return call_id or f"codex:{ref.position}"
