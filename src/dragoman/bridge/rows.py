"""Rows of the journal as rows of the socket. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from dragoman.bridge import messages, payload
from dragoman.journal import rows as stored
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Characters of a row that are sent unasked. What a tool printed beyond it is seldom read; a diff of this length is.
MOST: Final = 64 * 1024

# Of a permission: what is to be decided is shown in full, as far as a person could read it.
MOST_ASKED: Final = 1024 * 1024


def place_of(row_id: str) -> int:
    """The position of the frame that a row began with: row ids end with it."""
    _, _, digits = row_id.rpartition("-")
    return int(digits) if digits.isdecimal() else 0


def block_of(block: object) -> payload.Block:
    match block:
        case acp.TextContent(text=text):
            return payload.TextBlock(text=text)
        case acp.ImageContent(mime_type=mime_type, data=data, uri=uri):
            return payload.ImageBlock(mime_type=mime_type, data=data, uri=uri)
        case acp.AudioContent(mime_type=mime_type, data=data):
            return payload.AudioBlock(mime_type=mime_type, data=data)
        case acp.EmbeddedResource(resource=resource):
            return payload.ResourceBlock(
                uri=resource.uri, mime_type=resource.mime_type, text=resource.text, blob=resource.blob
            )
        case acp.ResourceLink():
            return payload.LinkBlock(
                uri=block.uri,
                name=block.name,
                title=block.title,
                description=block.description,
                mime_type=block.mime_type,
                size=block.size,
            )
        case _:
            return payload.UnknownBlock(kind=str(getattr(block, "kind", "unknown")))


def content_of(content: Iterable[object]) -> tuple[payload.ToolContent, ...]:
    made: list[payload.ToolContent] = []
    for item in content:
        match item:
            case acp.Content(content=block):
                made.append(payload.ContentItem(content=block_of(block)))
            case acp.Diff(path=path, old_text=old_text, new_text=new_text):
                made.append(payload.DiffItem(path=path, old_text=old_text, new_text=new_text))
            case acp.Terminal(terminal_id=terminal_id):
                made.append(payload.TerminalItem(terminal_id=terminal_id))
            case _:
                kind = str(getattr(item, "kind", "unknown"))
                made.append(payload.ContentItem(content=payload.UnknownBlock(kind=kind)))
    return tuple(made)


def usage_of(usage: rows.Usage | None) -> payload.Usage | None:
    if usage is None:
        return None
    cost = payload.Cost(amount=usage.cost.amount, currency=usage.cost.currency) if usage.cost is not None else None
    return payload.Usage(
        input_tokens=usage.input_tokens,
        cached_tokens=usage.cached_tokens,
        output_tokens=usage.output_tokens,
        thought_tokens=usage.thought_tokens,
        total_tokens=usage.total_tokens,
        context_used=usage.context_used,
        context_size=usage.context_size,
        cost=cost,
    )


def _decided(row: rows.DecidedRow) -> payload.Decision:
    return payload.Decision(
        decision=row.decision,
        decided_by=row.decided_by,
        reason=row.reason,
        rule=row.rule,
        layer=row.layer,
        remembered=row.remembered,
    )


def _locations(locations: Iterable[acp.ToolCallLocation]) -> tuple[payload.Location, ...]:
    return tuple(payload.Location(path=one.path, line=one.line) for one in locations)


# -- what is too long


class _Room:
    """How much of a row is still to be sent; `cut` once something was left out."""

    def __init__(self, most: int | None) -> None:
        self._left = most
        self.cut = False

    def raw(self, value: Any) -> Any:
        """As the agent wrote it, or not at all; as JSON, so that it need not be written again."""
        if value is None:
            return None
        try:
            data = msgspec.json.encode(value)
        except RecursionError:  # it was just not too deep to be read
            self.cut = True
            return None
        return msgspec.Raw(data) if self.fits(len(data)) else None

    def text(self, text: str) -> str:
        if self._left is None or self._take(len(text)):
            return text
        kept, self._left = text[: self._left], 0
        return kept

    def item(self, item: payload.ToolContent) -> payload.ToolContent:
        match item:
            case payload.ContentItem(content=payload.TextBlock(text=text)):
                return payload.ContentItem(content=payload.TextBlock(text=self.text(text)))
            case payload.ContentItem(content=payload.ImageBlock(data=data, mime_type=mime_type)):
                # An image is whole, or it is none.
                return item if self.fits(len(data)) else _left_out(mime_type)
            case payload.DiffItem(path=path, old_text=old, new_text=new):
                if self.fits(len(old or "") + len(new)):
                    return item
                return payload.DiffItem(path=path, old_text=old and self.text(old), new_text=self.text(new))
            case _:
                return item

    def fits(self, size: int) -> bool:
        return self._left is None or self._take(size)

    def _take(self, size: int) -> bool:
        assert self._left is not None
        if size > self._left:
            self.cut = True
            return False
        self._left -= size
        return True


def _left_out(mime_type: str) -> payload.ContentItem:
    return payload.ContentItem(content=payload.UnknownBlock(kind=f"{mime_type}, not sent for its size"))


# -- rows


def row_of(row: stored.Row, *, whole: bool = False) -> payload.Row | None:
    """None for what is no row of a conversation."""
    match row:
        case rows.Run():
            return _run(row)
        case stored.StoredMessage():
            return _message(row)
        case rows.ToolCall():
            return _tool_call(row, None if whole else MOST)
        case rows.Plan():
            return _plan(row)
        case rows.Permission():
            return _permission(row, None if whole else MOST_ASKED)
        case rows.FileCall():
            return _file_call(row, None if whole else MOST)
        case rows.Terminal():
            return _terminal(row)
        case rows.Question():
            return _question(row)
        case rows.Notice():
            return _notice(row)
        case _:
            return None


def _run(row: rows.Run) -> payload.Run:
    reason = row.error.message if row.error is not None and row.error.message else row.reason
    return payload.Run(
        id=row.id,
        place=row.position,
        time=row.time,
        status=row.status,
        stop_reason=row.stop_reason,
        reason=reason,
        cancel_requested=row.cancel_requested,
        usage=usage_of(row.usage),
        ended_time=row.ended_time,
    )


def _message(row: stored.StoredMessage) -> payload.Message:
    return payload.Message(
        id=row.id,
        place=place_of(row.id),
        kind=row.kind,
        run_id=row.run_id,
        time=row.time,
        replayed=row.replayed,
        text=row.text,
        blocks=tuple(map(block_of, row.blocks)),
        ended=row.ended,
    )


def _tool_call(row: rows.ToolCall, most: int | None) -> payload.ToolCall:
    room = _Room(most)
    content = tuple(map(room.item, content_of(row.content)))
    raw_input = room.raw(row.raw_input)
    raw_output = room.raw(row.raw_output)
    return payload.ToolCall(
        id=row.id,
        place=place_of(row.id),
        tool_call_id=row.tool_call_id,
        run_id=row.run_id,
        time=row.time,
        replayed=row.replayed,
        title=row.title,
        name=row.name,
        kind=row.kind,
        status=row.status,
        content=content,
        locations=_locations(row.locations),
        raw_input=raw_input,
        raw_output=raw_output,
        parent_id=row.parent_id,
        ended_time=row.ended_time,
        output=row.output,
        truncated=row.truncated,
        exit_code=row.exit_code,
        signal=row.signal,
        cut=room.cut,
    )


def _plan(row: rows.Plan) -> payload.Plan:
    entries = tuple(
        payload.PlanEntry(content=one.content, priority=one.priority, status=one.status) for one in row.entries
    )
    return payload.Plan(id=row.plan_id or "", entries=entries, markdown=row.markdown, uri=row.uri)


def _permission(row: rows.Permission, most: int | None) -> payload.Permission:
    room = _Room(most)
    content = tuple(map(room.item, content_of(row.content)))
    raw_input = room.raw(row.raw_input)
    return payload.Permission(
        id=row.id,
        place=place_of(row.id),
        run_id=row.run_id,
        time=row.time,
        options=tuple(payload.Option(option_id=one.option_id, name=one.name, kind=one.kind) for one in row.options),
        origin=row.origin,
        tool_call_row=row.tool_call_row,
        tool_call_id=row.tool_call_id,
        title=row.title,
        kind=row.kind,
        content=content,
        locations=_locations(row.locations),
        raw_input=raw_input,
        outcome=row.outcome,
        option_id=row.option_id,
        resolved_time=row.resolved_time,
        decided=_decided(row),
        cut=room.cut,
    )


def _file_call(row: rows.FileCall, most: int | None) -> payload.FileCall:
    room = _Room(most)
    diff = None
    if row.diff is not None:
        made = room.item(payload.DiffItem(path=row.diff.path, old_text=row.diff.old_text, new_text=row.diff.new_text))
        diff = made if isinstance(made, payload.DiffItem) else None
    return payload.FileCall(
        id=row.id,
        place=place_of(row.id),
        run_id=row.run_id,
        time=row.time,
        operation=row.operation,
        path=row.path,
        line=row.line,
        limit=row.limit,
        status=row.status,
        size=row.size,
        diff=diff,
        error=row.error,
        ended_time=row.ended_time,
        decided=_decided(row),
        cut=room.cut,
    )


def _terminal(row: rows.Terminal) -> payload.Terminal:
    return payload.Terminal(
        id=row.id,
        place=place_of(row.id),
        run_id=row.run_id,
        time=row.time,
        command=row.command,
        args=row.args,
        cwd=row.cwd,
        terminal_id=row.terminal_id,
        status=row.status,
        exit_code=row.exit_code,
        signal=row.signal,
        output=row.output,
        output_bytes=row.output_bytes,
        truncated=row.truncated,
        error=row.error,
        ended_time=row.ended_time,
        decided=_decided(row),
    )


def _question(row: rows.Question) -> payload.Question:
    return payload.Question(
        id=row.id,
        place=place_of(row.id),
        run_id=row.run_id,
        time=row.time,
        mode=row.mode,
        message=row.message,
        tool_call_id=row.tool_call_id,
        schema=row.schema,
        url=row.url,
        action=row.action,
        content=row.content,
        answered_time=row.answered_time,
        completed_time=row.completed_time,
        decided=_decided(row),
    )


def _notice(row: rows.Notice) -> payload.Notice:
    return payload.Notice(
        id=row.id,
        place=place_of(row.id),
        run_id=row.run_id,
        time=row.time,
        kind=row.kind,
        severity=row.severity,
        title=row.title,
        text=row.text,
        status=row.status,
        ended_time=row.ended_time,
    )


def state_of(row: stored.State | None) -> payload.State:
    if row is None:
        return payload.State()
    return payload.State(
        title=row.title,
        commands=tuple(
            payload.Command(name=one.name, description=one.description, hint=one.hint) for one in row.commands
        ),
        settings=tuple(
            payload.Setting(
                id=one.id,
                name=one.name,
                category=one.category,
                current=one.current,
                choices=tuple(
                    payload.Choice(value=each.value, name=each.name, description=each.description)
                    for each in one.choices
                ),
            )
            for one in row.settings
        ),
        sub_agents=tuple(
            payload.SubAgent(session_id=one.session_id, title=one.title, description=one.description, state=one.state)
            for one in row.sub_agents
        ),
        usage=usage_of(row.usage) or payload.Usage(),
    )


# -- many


def newest(found: stored.SessionRows, limit: int, before: int | None = None) -> tuple[payload.Rows, bool, int]:
    """The last rows, of those that began before a place; whether there are older ones; and where these begin."""
    placed: list[tuple[int, stored.Row]] = [(run.position, run) for run in found.runs]
    for table in (
        found.messages,
        found.tool_calls,
        found.permissions,
        found.file_calls,
        found.terminals,
        found.questions,
        found.notices,
    ):
        placed.extend((place_of(row.id), row) for row in table)
    if before is not None:
        placed = [one for one in placed if one[0] < before]
    placed.sort(key=lambda one: one[0])
    chosen = placed[-limit:] if limit else []
    begin = chosen[0][0] if chosen else 0
    more = len(chosen) < len(placed)
    if chosen and more:
        # Rows of one frame are not torn apart.
        older = [one for one in placed if one[0] < begin]
        more = bool(older)
        # The run that they begin in the middle of tells how it stands with them.
        run = [one for one in placed if one[0] <= begin and isinstance(one[1], rows.Run)][-1:]
        chosen = [one for one in run if one[0] < begin] + placed[len(older) :]
    kept: dict[type[object], list[Any]] = {}
    for _, row in chosen:
        made = row_of(row)
        if made is not None:
            kept.setdefault(type(made), []).append(made)
    plans: Sequence[payload.Plan] = [_plan(row) for row in found.plans] if before is None else ()
    made_rows = payload.Rows(
        runs=tuple(kept.get(payload.Run, ())),
        messages=tuple(kept.get(payload.Message, ())),
        tool_calls=tuple(kept.get(payload.ToolCall, ())),
        plans=tuple(plans),
        permissions=tuple(kept.get(payload.Permission, ())),
        file_calls=tuple(kept.get(payload.FileCall, ())),
        terminals=tuple(kept.get(payload.Terminal, ())),
        questions=tuple(kept.get(payload.Question, ())),
        notices=tuple(kept.get(payload.Notice, ())),
    )
    return made_rows, more, begin


def changes_of(changes: stored.RowChanges) -> list[messages.Change]:
    """What a commit changed, in the words of the socket, but for the session itself."""
    made: list[messages.Change] = []
    for table, key in changes.removed:
        if table == "plans":
            made.append(messages.Remove(table="plans", id=key))
    for row in changes.puts:
        if isinstance(row, stored.State):
            made.append(messages.PutState(state=state_of(row)))
        elif (told := row_of(row)) is not None:
            made.append(messages.Put(row=told))
    for part in changes.parts:
        blocks = tuple(map(block_of, part.blocks))
        made.append(messages.Append(message_id=part.message_id, text=part.text, blocks=blocks))
    return made
