"""A stored session as Markdown: what a terminal would show, for a page or a ticket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterable, Iterator
from pathlib import Path
from typing import Final

from dragoman.cli.conversation import Conversation, Prompt, Told, retold
from dragoman.cli.pieces import Line, Piece, Text, Thought
from dragoman.cli.render import Renderer
from dragoman.cli.screen import without_colours
from dragoman.cli.stored import when
from dragoman.cli.text import clean, one_line, plain
from dragoman.journal.find import name_of
from dragoman.journal.rows import Session
from dragoman.journal.store import Journal

# Columns of the lines beside the agent's words, which stand in a block of their own.
_WIDTH: Final = 120
_BACKTICKS: Final = re.compile("`+")
# What would mean something in a heading.
_MEANINGFUL: Final = re.compile(r"([\\`*_<>\[\]#|])")


async def markdown(journal: Journal, session: Session) -> AsyncIterator[str]:
    """Part by part."""
    yield f"# {_literal(one_line(name_of(session), 200))}\n"
    facts = {"agent": session.agent, "workspace": session.cwd, "began": when(session.created), "session": session.id}
    yield "\n" + "".join(f"- {name}: {_literal(plain(value))}\n" for name, value in facts.items() if value)
    writer = _Writer(Renderer(cwd=Path(session.cwd or "/"), width=_WIDTH, thoughts=True, verbose=False, diffs=True))
    async for page in retold(journal, session):
        yield "".join(writer.write(page))
    yield "".join(writer.end())


class _Writer:
    def __init__(self, renderer: Renderer) -> None:
        self._conversation = Conversation(renderer)
        self._lines: list[str] = []  # that stand together in a block

    def write(self, page: Iterable[Told]) -> Iterator[str]:
        for told in page:
            if isinstance(told, Prompt):
                yield from self._pieces(self._conversation.end())
                yield from self._block()
                yield _prompt(told)
            else:
                yield from self._pieces(self._conversation.show([told]))

    def end(self) -> Iterator[str]:
        yield from self._pieces(self._conversation.end())
        yield from self._block()

    def _pieces(self, pieces: Iterable[Piece]) -> Iterator[str]:
        for piece in pieces:
            match piece:
                case Line(spans=spans):
                    self._lines.append(without_colours(spans).rstrip())
                case Text(text=text):
                    yield from self._block()
                    yield f"\n{clean(text).strip()}\n"
                case Thought(text=text):
                    yield from self._block()
                    yield f"\n{_quoted(text, '> *thought:* ')}\n"
                case _:
                    pass

    def _block(self) -> Iterator[str]:
        if self._lines:
            fence = _fence(self._lines)
            yield "\n".join(["", f"{fence}text", *self._lines, fence, ""])
            self._lines = []


def _prompt(prompt: Prompt) -> str:
    attached = f"\nwith {_literal(plain(', '.join(prompt.attached)))}\n" if prompt.attached else ""
    return f"\n## {when(prompt.time)}\n\n{_quoted(prompt.text)}\n{attached}"


def _quoted(text: str, first: str = "> ") -> str:
    head, *rest = clean(text).strip().split("\n")
    return "\n".join([f"{first}{head}".rstrip(), *(f"> {line}".rstrip() for line in rest)])


def _fence(lines: Iterable[str]) -> str:
    longest = max((len(found) for line in lines for found in _BACKTICKS.findall(line)), default=0)
    return "`" * max(3, longest + 1)


def _literal(text: str) -> str:
    return _MEANINGFUL.sub(r"\\\1", text)
