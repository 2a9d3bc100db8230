"""Rows of the journal as the models that clients get. Pure.

A model has the fields of its row; only nested ACP values, which are camelCase on the wire, are converted. Rows that are
too large to be sent unasked are shortened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from dragoman.host.question.form import Form, read_form
from dragoman.journal import rows as stored
from dragoman.protocol import messages, models
from dragoman.record import rows
from dragoman.wire import vocabulary as acp

# Characters of a row that are sent unasked. Few people read more of a tool's output; a diff of this length they do.
MAX_ROW_CHARS: Final = 64 * 1024

# The same for a permission: what a person has to decide on is sent in full, as far as anyone could read it.
MAX_PERMISSION_CHARS: Final = 1024 * 1024

# The same for the images and files of a message, together: they are sent as a whole or not at all.
MAX_ATTACHMENT_CHARS: Final = 1024 * 1024

# Characters of a text that are enough to know what is sent of it unasked, and that there is more.
MAX_SENT_CHARS: Final = MAX_PERMISSION_CHARS + 1

# Characters of a message that are sent at once to a client that asks for it; the rest follows in further parts.
MAX_PART_CHARS: Final = 256 * 1024

# Characters of any other row that a client asks for, and of all rows of a snapshot or a page of history together.
# Encoding and compressing more would stop the server for other clients.
MAX_FULL_ROW_CHARS: Final = 4 * 1024 * 1024
MAX_SNAPSHOT_CHARS: Final = 2 * 1024 * 1024

# About what a row takes besides its texts.
_ROW_CHARS: Final = 500

_MODELS: Final[dict[type[Any], type[Any]]] = {
    rows.Run: models.Run,
    stored.StoredMessage: models.Message,
    rows.ToolCall: models.ToolCall,
    rows.Permission: models.Permission,
    rows.FileCall: models.FileCall,
    rows.Terminal: models.Terminal,
    rows.Question: models.Question,
    rows.Notice: models.Notice,
}
_TABLES: Final[dict[type[Any], str]] = {model: str(model.__struct_config__.tag) for model in _MODELS.values()}


# -- nested ACP values


def block_model(block: object) -> models.Block:
    match block:
        case acp.TextContent(text=text):
            return models.TextBlock(text=text)
        case acp.ImageContent(mime_type=mime_type, data=data, uri=uri):
            return models.ImageBlock(mime_type=mime_type, data=data, uri=uri)
        case acp.AudioContent(mime_type=mime_type, data=data):
            return models.AudioBlock(mime_type=mime_type, data=data)
        case acp.EmbeddedResource(resource=resource):
            return models.ResourceBlock(**_values(resource, models.ResourceBlock))
        case acp.ResourceLink():
            return models.LinkBlock(**_values(block, models.LinkBlock))
        case _:
            return models.UnknownBlock(kind=str(getattr(block, "kind", "unknown")))


def tool_content(content: Iterable[object]) -> tuple[models.ToolContent, ...]:
    items: list[models.ToolContent] = []
    for item in content:
        match item:
            case acp.Content(content=block):
                items.append(models.ContentItem(content=block_model(block)))
            case acp.Diff():
                items.append(diff_item(item))
            case acp.Terminal(terminal_id=terminal_id):
                items.append(models.TerminalItem(terminal_id=terminal_id))
            case _:
                kind = str(getattr(item, "kind", "unknown"))
                items.append(models.ContentItem(content=models.UnknownBlock(kind=kind)))
    return tuple(items)


def diff_item(diff: acp.Diff) -> models.DiffItem:
    return models.DiffItem(path=diff.path, old_text=diff.old_text, new_text=diff.new_text)


def usage_model(usage: rows.Usage) -> models.Usage:
    return models.Usage(
        **{
            **_values(usage, models.Usage),
            "cost": _same_fields(usage.cost, models.Cost) if usage.cost is not None else None,
        }
    )


def _same_fields(value: object, model: type[Any]) -> Any:
    return model(**_values(value, model))


def _values(value: object, model: type[Any]) -> dict[str, Any]:
    source = type(value)
    names = _SHARED_FIELDS.get((source, model))
    if names is None:
        fields = getattr(source, "__struct_fields__", ())
        names = _SHARED_FIELDS[source, model] = tuple(name for name in model.__struct_fields__ if name in fields)
    return {name: getattr(value, name) for name in names}


_SHARED_FIELDS: Final[dict[tuple[type[Any], type[Any]], tuple[str, ...]]] = {}


# -- long rows


class _Budget:
    """The characters of a row that may still be sent; `exceeded` once something was left out."""

    def __init__(self, characters: int) -> None:
        self._left = characters
        self.used = 0
        self.exceeded = False

    def raw(self, value: Any) -> Any:
        """Return the agent's own value as JSON, so that it is not encoded again; None if it exceeds the limit."""
        if value is None:
            return None
        if stored.is_longer_than(value, self._left):  # encoding all of it would stop the server for other clients
            self.exceeded = True
            return None
        try:
            data = msgspec.json.encode(value)
        except RecursionError:  # it was just not too deep to be decoded
            self.exceeded = True
            return None
        return msgspec.Raw(data) if self._take(len(data)) else None

    def text(self, text: str) -> str:
        """Return the beginning of a text, as far as it may be sent."""
        if self._take(len(text)):
            return text
        shortened = text[: self._left]
        self._take(len(shortened))
        return shortened

    def blocks(self, blocks: Iterable[object]) -> tuple[models.Block, ...]:
        return tuple(self._block(block_model(block)) for block in blocks)

    def content(self, content: Iterable[object]) -> tuple[models.ToolContent, ...]:
        return tuple(map(self._item, tool_content(content)))

    def diff(self, diff: acp.Diff) -> models.DiffItem:
        item = self._item(diff_item(diff))
        assert isinstance(item, models.DiffItem)
        return item

    def _item(self, item: models.ToolContent) -> models.ToolContent:
        match item:
            case models.ContentItem(content=block):
                return models.ContentItem(content=self._block(block))
            case models.DiffItem(path=path, old_text=old, new_text=new):
                if self._take(len(old or "") + len(new)):
                    return item
                return models.DiffItem(path=path, old_text=old and self.text(old), new_text=self.text(new))
            case models.TerminalItem():
                return item

    def _block(self, block: models.Block) -> models.Block:
        match block:
            case models.TextBlock(text=text):
                return models.TextBlock(text=self.text(text))
            case models.ImageBlock(data=data, mime_type=mime_type) | models.AudioBlock(data=data, mime_type=mime_type):
                # An image or a sound is sent as a whole or not at all.
                return block if self._take(len(data)) else _omitted(mime_type)
            case models.ResourceBlock(uri=uri, text=text, blob=blob, mime_type=mime_type):
                if self._take(len(uri) + len(text or "") + len(blob or "")):
                    return block
                return _omitted(mime_type or "a file")
            case models.LinkBlock(uri=uri, description=description):
                return block if self._take(len(uri) + len(description or "")) else _omitted("a link")
            case models.UnknownBlock():
                return block

    def _take(self, size: int) -> bool:
        if size > self._left:
            self.exceeded = True
            return False
        self._left -= size
        self.used += size
        return True


def _omitted(kind: str) -> models.UnknownBlock:
    return models.UnknownBlock(kind=f"{kind}, not sent for its size")


# -- rows


def row_model(row: stored.Row) -> models.Row | None:
    """The model of a row, shortened if it is long; None for rows that are not part of a conversation."""
    return _row_model(row, *_unasked_budgets(row))


def _unasked_budgets(row: stored.Row) -> tuple[_Budget, _Budget]:
    """The budgets of a row that is sent unasked, and of a message's attachments."""
    limit = MAX_PERMISSION_CHARS if isinstance(row, rows.Permission) else MAX_ROW_CHARS
    return _Budget(limit), _Budget(MAX_ATTACHMENT_CHARS)


def full_row_model(row: stored.Row, offset: int = 0) -> models.Row | None:
    """The model of a row that a client asked for; of a message, the part of its text from character `offset` on.

    It is `shortened` where more of the message follows, or where the row is too long even for a client that asks.
    """
    if isinstance(row, stored.StoredMessage):
        part = msgspec.structs.replace(row, text=row.text[offset : offset + MAX_PART_CHARS + 1])
        return _row_model(part, _Budget(MAX_PART_CHARS), _Budget(MAX_FULL_ROW_CHARS))
    budget = _Budget(MAX_FULL_ROW_CHARS)
    return _row_model(row, budget, budget)


def _row_model(row: stored.Row, budget: _Budget, attachments: _Budget) -> models.Row | None:
    if isinstance(row, rows.Plan):
        return _plan(row, budget)
    model = _MODELS.get(type(row))
    if model is None:
        return None
    values = _values(row, model)
    if isinstance(row, rows.Question):  # its content is no ACP content, but what the user filled in
        values["form"] = _form_model(row)
        values["message"] = budget.text(row.message)
    else:
        for name, convert in _CONVERTERS.items():
            if values.get(name) is not None:
                values[name] = convert(budget, values[name])
        if isinstance(row, stored.StoredMessage):
            values["blocks"] = attachments.blocks(row.blocks)
    if isinstance(row, rows.Run):
        if row.error is not None and row.error.message:
            values["reason"] = row.error.message
    else:
        values["position"] = stored.row_position(values["id"])
    if budget.exceeded or attachments.exceeded:
        values["shortened"] = True
    made: models.Row = model(**values)
    return made


# The order matters: what comes first is shortened last.
_CONVERTERS: Final[dict[str, Callable[[_Budget, Any], Any]]] = {
    "text": lambda budget, text: budget.text(text),
    "content": lambda budget, content: budget.content(content),
    "diff": lambda budget, diff: budget.diff(diff),
    "raw_input": lambda budget, value: budget.raw(value),
    "raw_output": lambda budget, value: budget.raw(value),
    "locations": lambda _, locations: tuple(_same_fields(location, models.Location) for location in locations),
    "options": lambda _, options: tuple(_same_fields(option, models.PermissionOption) for option in options),
    "usage": lambda _, usage: usage_model(usage),
}


def form_of(row: rows.Question) -> Form | None:
    """The form of a question; None where it has none, or one that cannot be read."""
    if row.mode != "form":
        return None
    try:
        return read_form(msgspec.json.encode(row.schema if row.schema is not None else {}))
    except (msgspec.MsgspecError, RecursionError):
        return None


def _form_model(row: rows.Question) -> models.Form | None:
    form = form_of(row)
    if form is None:
        return None
    return models.Form(
        fields=tuple(
            msgspec.convert({**msgspec.to_builtins(field), "title": field.label}, models.FormField)
            for field in form.fields
        ),
        left_out=form.left_out,
        error=form.error,
    )


def _plan(row: rows.Plan, budget: _Budget) -> models.Plan:
    markdown = row.markdown and budget.text(row.markdown)
    return models.Plan(
        id=row.plan_id or "", entries=row.entries, markdown=markdown, uri=row.uri, shortened=budget.exceeded
    )


def session_details(row: stored.State | None) -> models.SessionDetails:
    if row is None:
        return models.SessionDetails()
    return models.SessionDetails(**{**_values(row, models.SessionDetails), "usage": usage_model(row.usage)})


# -- many rows


def newest_rows(
    session_rows: stored.SessionRows, limit: int, before: int | None = None
) -> tuple[models.Rows, bool, int]:
    """The last rows below a position; whether there are older ones; and the position of the first of them.

    They are fewer than `limit` if they are long.
    """
    ordered: list[tuple[int, stored.Row]] = [(run.position, run) for run in session_rows.runs]
    for table in (
        session_rows.messages,
        session_rows.tool_calls,
        session_rows.permissions,
        session_rows.file_calls,
        session_rows.terminals,
        session_rows.questions,
        session_rows.notices,
    ):
        ordered.extend((stored.row_position(row.id), row) for row in table)
    if before is not None:
        ordered = [item for item in ordered if item[0] < before]
    ordered.sort(key=lambda item: item[0])
    newest: list[models.Row] = []  # the last one first
    first, begin, chars_left = len(ordered), 0, MAX_SNAPSHOT_CHARS
    while first:
        position, row = ordered[first - 1]
        is_enough = len(ordered) - first >= limit or chars_left <= 0
        if is_enough and (first == len(ordered) or position != begin):  # rows of one frame stay together
            break
        first, begin = first - 1, position
        chars_left -= _add_row(newest, row)
    more = first > 0
    if newest and more and not any(isinstance(row, rows.Run) and at == begin for at, row in ordered[first:]):
        # The run in whose middle they begin comes along: it has the status of these rows.
        for _, row in [item for item in ordered[:first] if isinstance(item[1], rows.Run)][-1:]:
            _add_row(newest, row)
    tables: dict[str, list[Any]] = {}
    for model in reversed(newest):
        tables.setdefault(_TABLES[type(model)], []).append(model)
    plans = [_plan(row, _Budget(MAX_ROW_CHARS)) for row in session_rows.plans] if before is None else []
    return models.Rows(plans=tuple(plans), **{name: tuple(table) for name, table in tables.items()}), more, begin


def _add_row(newest: list[models.Row], row: stored.Row) -> int:
    """Add the model of a row, if it has one. Return about how many characters it takes."""
    budget, attachments = _unasked_budgets(row)
    model = _row_model(row, budget, attachments)
    if model is None:
        return 0
    newest.append(model)
    return _ROW_CHARS + budget.used + attachments.used


def changes_of(changes: stored.RowChanges) -> list[messages.Change]:
    """The changes of a commit as a client gets them, without those of the session's own row."""
    sent: list[messages.Change] = [
        messages.Remove(table="plans", id=key) for table, key in changes.removed if table == "plans"
    ]
    for row in changes.puts:
        if isinstance(row, stored.State):
            sent.append(messages.PutDetails(details=session_details(row)))
        elif (model := row_model(row)) is not None:
            sent.append(messages.Put(row=model))
    sent.extend(map(_append, changes.parts))
    return sent


def _append(part: stored.MessagePart) -> messages.Append:
    budget, attachments = _Budget(MAX_ROW_CHARS), _Budget(MAX_ATTACHMENT_CHARS)
    return messages.Append(
        message_id=part.message_id,
        text=budget.text(part.text),
        blocks=attachments.blocks(part.blocks),
        shortened=budget.exceeded or attachments.exceeded,
    )
