"""`MarkdownStream`: an agent's Markdown on a terminal, rendered while it streams in.

Paragraphs, list items and code blocks are shown line by line as they come, a table when it is complete. Promised:
nothing in the text acts on the terminal, also not what Markdown itself decodes (`&#27;`); the parts in which a text
comes do not change how it looks; memory and time per block are bounded.
"""

from __future__ import annotations

import functools
import io
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, ClassVar, Final, NamedTuple

from dragoman.cli.text import truncate
from dragoman.record.text import strip_controls

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown
    from rich.segment import Segment
    from rich.style import Style
    from rich.syntax import Syntax

# Longer blocks are rendered in parts, so that text without line ends neither piles up nor blocks the event loop: some
# inputs take Markdown parsers quadratic time. A table that is broken off goes on verbatim, row by row.
MAX_BLOCK_CHARACTERS: Final = 3_000
MAX_TABLE_CHARACTERS: Final = 16_000
MAX_TABLE_COLUMNS: Final = 40
# A longer line of code is not coloured: lexers take their time over it.
MAX_COLOURED_CHARACTERS: Final = 500

CODE_INDENT: Final = "  "
BULLET: Final = "•"
# A block is never narrower than this, however deep it is indented.
MIN_COLUMNS: Final = 10

_FENCE: Final = re.compile(r"( *)(`{3,}|~{3,})\s*([\w+#.-]*)[^`]*")
_HEADING: Final = re.compile(r" {0,3}#{1,6}(\s|$)")
_ITEM: Final = re.compile(r"( *)([-*+]|\d{1,9}[.)])(\s|$)")
_RULE: Final = re.compile(r" {0,3}([-*_])(\s*\1){2,}\s*")
# A line that may still become an item, a rule, a fence or a heading.
_AMBIGUOUS: Final = re.compile(r"[-*_+=~`#>|\s]*|\s*\d{1,9}[.)]?\s*")
_CODE_SPAN: Final = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)", re.DOTALL)
_LINK_END: Final = re.compile(r"\]\([^()\s]*\)")
_EMPHASIS: Final = (
    re.compile(r"\*\*"),
    re.compile(r"(?<!\*)\*(?!\*)"),
    re.compile(r"(?<!\w)_|_(?!\w)"),
    re.compile("~~"),
)
_SEPARATOR: Final = re.compile(r"\s*\|?[\s:|-]*-[\s:|-]*")

# Colours of the terminal's own theme and no backgrounds: readable on light and dark ones.
_STYLES: Final = {
    "markdown.h1": "bold underline",
    "markdown.h2": "bold",
    "markdown.h3": "bold",
    "markdown.h4": "bold dim",
    "markdown.h5": "italic",
    "markdown.h6": "dim",
    "markdown.code": "cyan",
    "markdown.item.bullet": "cyan",
    "markdown.item.number": "cyan",
    "markdown.block_quote": "dim",
    "markdown.hr": "dim",
    "markdown.link": "cyan",
    "markdown.link_url": "dim underline",
    "markdown.table.border": "dim",
    "markdown.table.header": "bold",
}


class _Fence(NamedTuple):
    """An open code block: how it ends, how far it is indented, and the lexer of its language."""

    marker: str
    indent: str
    syntax: Syntax | None


class _Drawn:
    """The open block as it is on the screen: its width, the kind of the block before it, and its final lines."""

    def __init__(self, width: int, previous: str) -> None:
        self.width = width
        self.previous = previous
        self.count = 0


class MarkdownStream:
    """`width` columns wide; `colours` is False where only bold, italic and underlined text may be used."""

    def __init__(self, width: int, *, colours: bool) -> None:
        from rich.console import Console
        from rich.theme import Theme

        self.width = width
        self._console = Console(
            file=io.StringIO(), theme=Theme(_STYLES), force_terminal=True, color_system="standard", no_color=not colours
        )
        self._colours = colours
        self._previous = ""  # kind of the block before: "list", "table", "code" or "text"; empty at the beginning
        self._partial = ""  # of a line
        self._block: list[str] = []
        self._fence: _Fence | None = None
        self._drawn: _Drawn | None = None

    def restart(self) -> None:
        """Go on after a gap: the next block needs none of its own."""
        self._previous = ""

    def feed(self, text: str) -> str:
        """Take the next part of the message; return whole lines to write, often none."""
        *lines, self._partial = f"{self._partial}{text}".split("\n")
        output = "".join(self._line(part) for line in lines for part in _parts(line))
        *parts, self._partial = _parts(self._partial)
        return output + "".join(self._line(part) + self._end_block() for part in parts)

    def draw(self) -> tuple[str, str]:
        """Render the block that is not complete.

        Return its lines that cannot change any more, and the one at its end, to be shown until the next call.
        """
        if self._fence is not None:
            code = self._partial.removeprefix(self._fence.indent).expandtabs(4)
            return "", truncate(f"{self._fence.indent}{CODE_INDENT}{code}", self.width - 1) if code else ""
        lines = [*self._block, self._partial] if self._goes_on() else self._block
        if not lines or _marker(lines[0]) or _HEADING.match(lines[0]):
            return "", ""
        if self._drawn is None:
            self._drawn = _Drawn(self.width, self._previous)
            kind, rendered = self._rendered("\n".join(lines))
            output = self._gap(kind)
        else:
            _, rendered = self._rendered("\n".join(lines))
            output = ""
        if _is_settled(lines):
            output += "".join(f"{line}\n" for line in rendered[self._drawn.count : -1])
            self._drawn.count = max(self._drawn.count, len(rendered) - 1)
        return output, rendered[-1] if len(rendered) > self._drawn.count else ""

    def _goes_on(self) -> bool:
        """Test whether the incomplete line belongs to the block, or begins one, whatever comes next."""
        line = self._partial
        if not line.strip() or _AMBIGUOUS.fullmatch(line) or _FENCE.match(line):
            return False
        return not self._block or not (_ITEM.match(line) or _HEADING.match(line) or _marker(line))

    def flush(self) -> str:
        """Render what has come so far, though its block may go on."""
        partial, self._partial = self._partial, ""
        return (self._line(partial) if partial else "") + self._end_block()

    def end(self) -> str:
        """End the message: render the rest, and close a code block that was left open."""
        output = self.flush()
        self._fence = None
        return output

    # -- from lines to blocks

    def _line(self, line: str) -> str:
        if self._fence is not None:
            return self._code_line(self._fence, line)
        if (fence := _FENCE.fullmatch(line)) is not None:
            output = self._end_block() + self._gap("code")
            self._fence = _Fence(fence[2], fence[1], self._syntax(fence[3]))
            return output
        if not line.strip():
            return self._end_block()
        if _HEADING.match(line):
            return self._end_block() + self._render(line)
        if _RULE.fullmatch(line) and not (self._block and "-" in line):  # under a line of text, --- makes it a heading
            return self._end_block() + self._render(line)
        marker = _marker(line)
        limit = MAX_TABLE_CHARACTERS if marker == "|" else MAX_BLOCK_CHARACTERS
        begins = (
            _ITEM.match(line) is not None
            or marker != _marker("".join(self._block[:1]))
            or sum(map(len, self._block)) + len(line) > limit
        )
        output = self._end_block() if begins else ""
        self._block.append(line)
        return output

    def _end_block(self) -> str:
        lines, self._block = self._block, []
        if lines and _marker(lines[0]) == "|" and not _is_table(lines):
            return self._gap("table") + "".join(f"{line}\n" for line in lines)
        return self._render("\n".join(lines)) if lines else ""

    # -- from blocks to output

    def _render(self, text: str) -> str:
        """Render a complete block, without the lines of it that were drawn already."""
        kind, lines = self._rendered(text)
        drawn, self._drawn = self._drawn, None
        gap = self._gap(kind) if drawn is None else ""
        return gap + "".join(f"{line}\n" for line in lines[drawn.count if drawn is not None else 0 :])

    def _rendered(self, text: str) -> tuple[str, list[str]]:
        """Return a block's kind and lines. All lines of a list item are indented as far as the text behind its mark."""
        width, previous = (self._drawn.width, self._drawn.previous) if self._drawn else (self.width, self._previous)
        item = _ITEM.match(text)
        indent = len(text) - len(text.lstrip(" "))
        if item is not None:
            mark = item[2] if item[2][0].isdigit() else BULLET
            lead = f"{' ' * indent}{self._painted_mark(mark)} "
            indent, text = indent + len(mark) + 1, text[item.end() :]
        else:
            indent = 0 if indent >= 4 and previous != "list" else indent  # an indented code block
            lead = " " * indent
        kind = "list" if item is not None or (indent and previous == "list") else "text"
        body = "\n".join(_dedented(line, indent) for line in text.split("\n"))
        room = max(width - indent - 1, MIN_COLUMNS)
        options = self._console.options.update(width=room, max_width=room)
        lines = [self._painted(line) for line in self._console.render_lines(_markdown(body), options, pad=False)]
        first, *rest = _trimmed(lines) or [""]
        return kind, [f"{lead}{first}".rstrip(), *(f"{' ' * indent}{line}".rstrip() for line in rest)]

    def _painted_mark(self, mark: str) -> str:
        from rich.segment import Segment

        return self._painted([Segment(mark, self._console.get_style("markdown.item.bullet"))])

    def _code_line(self, fence: _Fence, line: str) -> str:
        if line.strip().startswith(fence.marker) and not line.strip().strip(fence.marker[0]):
            self._fence = None
            return ""
        code = line.removeprefix(fence.indent).expandtabs(4)
        if fence.syntax is not None and len(code) <= MAX_COLOURED_CHARACTERS:
            code = self._painted(fence.syntax.highlight(code).render(self._console))
        return f"{fence.indent}{CODE_INDENT}{code}".rstrip() + "\n"

    def _gap(self, kind: str) -> str:
        previous, self._previous = self._previous, kind
        return "\n" if previous and not (previous == kind and kind in ("list", "table")) else ""

    def _syntax(self, language: str) -> Syntax | None:
        if not language or not self._colours:
            return None
        from rich.syntax import Syntax

        syntax = Syntax("", language, theme="ansi_dark")
        return syntax if syntax.lexer is not None else None

    def _painted(self, line: Iterable[Segment]) -> str:
        """Paint a line without the spaces at its end. Controls are removed here: Markdown decodes some of its own."""
        parts = [(strip_controls(text).replace("\n", ""), style) for text, style, control in line if control is None]
        while parts and not parts[-1][0].strip():
            parts.pop()
        if parts:
            parts[-1] = (parts[-1][0].rstrip(), parts[-1][1])
        return "".join(self._styled(text, style) for text, style in parts)

    def _styled(self, text: str, style: Style | None) -> str:
        from rich.color import ColorSystem

        if not style:
            return text
        visible = style if self._colours else style.without_color
        return visible.render(text, color_system=ColorSystem.STANDARD)


def _parts(line: str) -> list[str]:
    """Split a line into parts that are not too long to be rendered, broken between words where there are any."""
    parts = []
    while len(line) > MAX_BLOCK_CHARACTERS:
        end = line.rfind(" ", 1, MAX_BLOCK_CHARACTERS) + 1 or MAX_BLOCK_CHARACTERS
        parts.append(line[:end])
        line = line[end:]
    return [*parts, line]


def _is_settled(lines: list[str]) -> bool:
    """Test whether no emphasis, code or link is open whose end would change how the text before it looks."""
    text = "\n".join(lines)
    words = _CODE_SPAN.sub("", text)
    return (
        "`" not in words
        and words.count("[") == words.count("]")
        and words.count("](") == len(_LINK_END.findall(words))
        and all(len(pattern.findall(words)) % 2 == 0 for pattern in _EMPHASIS)
    )


def _marker(line: str) -> str:
    """Return the character that all lines of a table or a quotation begin with; empty for other lines."""
    first = line.lstrip()[:1]
    return first if first in ("|", ">") else ""


def _is_table(lines: list[str]) -> bool:
    return len(lines) > 1 and _SEPARATOR.fullmatch(lines[1]) is not None and lines[0].count("|") <= MAX_TABLE_COLUMNS


def _dedented(line: str, indent: int) -> str:
    return line[min(indent, len(line) - len(line.lstrip(" "))) :]


def _trimmed(lines: list[str]) -> list[str]:
    """Remove empty lines at the beginning and the end."""
    shown = [number for number, line in enumerate(lines) if line]
    return lines[shown[0] : shown[-1] + 1] if shown else []


@functools.cache
def _markdown_class() -> type[Markdown]:
    """Rich's Markdown with headings at the left, and indented code in the terminal's own colours."""
    from rich.markdown import CodeBlock, Heading, Markdown
    from rich.padding import Padding
    from rich.text import Text

    class LeftHeading(Heading):
        LEVEL_ALIGN: ClassVar = {}

    class PlainCode(CodeBlock):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            yield Padding(Text(str(self.text).rstrip()), (0, 0, 0, len(CODE_INDENT)))

    class LeftMarkdown(Markdown):
        elements: ClassVar = {
            **Markdown.elements,
            "heading_open": LeftHeading,
            "code_block": PlainCode,
            "fence": PlainCode,
        }

    return LeftMarkdown


def _markdown(text: str) -> Markdown:
    return _markdown_class()(text, hyperlinks=False)
