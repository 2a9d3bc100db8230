"""A conversation as Markdown, from its rows. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from dragoman.bridge import payload
from dragoman.bridge.rows import content_of, place_of
from dragoman.journal.rows import SessionRows, StoredMessage
from dragoman.record import rows


def markdown(found: SessionRows) -> str:
    """What was said, and what was done, in its order."""
    session = found.sessions[0] if found.sessions else None
    title = (session.title or session.prompt or session.id) if session is not None else "Session"
    parts = [f"# {' '.join(title.split())}"]
    if session is not None:
        facts = {"agent": session.agent, "workspace": session.cwd, "began": _when(session.created)}
        parts.append("\n".join(f"- {name}: {value}" for name, value in facts.items() if value))
    spoken: list[tuple[int, StoredMessage | rows.ToolCall]] = [
        *((place_of(row.id), row) for row in found.messages),
        *((place_of(row.id), row) for row in found.tool_calls),
    ]
    for _, row in sorted(spoken, key=lambda one: one[0]):
        parts.extend(_message(row) if isinstance(row, StoredMessage) else _tool_call(row))
    return "\n\n".join(part for part in parts if part) + "\n"


def _message(row: StoredMessage) -> Iterator[str]:
    match row.kind:
        case "user":
            yield f"## {_when(row.time)}"
            yield _quoted(row.text)
        case "assistant":
            yield row.text.strip()
        case "thought":
            yield _quoted(f"*thought:* {row.text.strip()}")


def _tool_call(row: rows.ToolCall) -> Iterator[str]:
    yield f"- **{row.kind}** {' '.join(row.title.split())} ({row.status})"
    for item in content_of(row.content):
        match item:
            case payload.DiffItem(path=path, old_text=old, new_text=new):
                yield _fenced("\n".join([f"--- {path}", *_lines("-", old or ""), *_lines("+", new)]), "diff")
            case payload.ContentItem(content=payload.TextBlock(text=text)) if text.strip():
                yield _fenced(text.strip(), "text")
            case _:
                pass
    if row.output is not None and row.output.strip():
        yield _fenced(row.output.strip(), "text")


def _lines(mark: str, text: str) -> list[str]:
    return [f"{mark}{line}" for line in text.splitlines()]


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.strip().splitlines())


def _fenced(text: str, kind: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{kind}\n{text}\n{fence}"


def _when(time: float) -> str:
    return datetime.fromtimestamp(time).astimezone().strftime("%Y-%m-%d %H:%M")
