"""Outputs of calls: the text without the program's own headers, and the exit status.

Codex wrote this in three forms over the years: as JSON with `metadata.exit_code`, with `Exit code: N` above the output,
and with `Process exited with code N` above it. Where nothing was run, a bare sentence says why.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from dragoman.translate.codex import records

_HEADER: Final = re.compile(
    r"(?:Script (?:(?P<script>completed|failed|terminated)|running with cell ID (?P<cell>\S+))\n)?"
    r"(?:Chunk ID: \S*\n)?"
    r"(?:Exit code: (?P<code>-?\d{1,10})\n)?"
    r"Wall time:? [^\n]*\n"
    r"(?:Process exited with code (?P<exited>-?\d{1,10})\n)?"
    r"(?:Process running with session ID (?P<session>\S+)\n)?"
    r"(?:Original token count: \d+\n|Warning: truncated output[^\n]*\n)?"
    r"(?:Total output lines: \d+\n)?"
    r"Output:(?:\n|$)"
)
# The command is told above the header in some versions, and may be of many lines itself.
_AFTER_COMMAND: Final = re.compile(r"\n(?=Chunk ID: |Wall time: )")
# Of what was not run, or not to its end: a bare sentence, in newer versions below the time it took.
_FAILURE: Final = re.compile(
    r"(?:Wall time:? [^\n]*\n)?(?:"
    r"exec command rejected|aborted\b|unsupported (?:custom tool )?call\b|failed\b|execution error\b|"
    r"(?:\w{1,80}[_/][\w/]{0,80}|collab|tool call) (?:\w+ )?failed\b|.{0,80}\brejected by (?:the )?user\b|"
    r"sandbox error\b|err(?:or)?: )",
    re.IGNORECASE,
)
_QUOTE: Final = ord('"')


class Result(msgspec.Struct, frozen=True, gc=False):
    text: str = ""
    exit_code: int | None = None
    running: str | None = None  # what later calls know it by, where it has not ended
    failed: bool = False
    refused: bool = False  # it failed because it was not done at all, or not to its end
    images: tuple[str, ...] = ()  # addresses, most of them with the data in them


class _Metadata(msgspec.Struct, frozen=True, gc=False):
    exit_code: int | None = None


class _JsonOutput(msgspec.Struct, frozen=True, gc=False):
    output: str
    metadata: _Metadata


def read(raw: msgspec.Raw) -> Result:
    """Of an `output` in any form: a string, a list of pieces, or an object with either in it."""
    if memoryview(raw)[0] == _QUOTE:
        return of_text(records.string(raw))
    value = records.plain(raw)
    if isinstance(value, dict):
        result = read(msgspec.Raw(msgspec.json.encode(value.get("content") or value.get("output") or "")))
        failed = value.get("success") is False
        return msgspec.structs.replace(result, failed=True) if failed else result
    pieces = records.parts(raw)
    words = "".join(piece.text for piece in pieces)
    images = tuple(piece.image_url for piece in pieces if piece.image_url)
    return msgspec.structs.replace(of_text(words), images=images)


def of_text(text: str) -> Result:
    if text.startswith('{"output":'):
        result = records.read(text.encode("utf-8", "replace"), _JsonOutput, None)
        if result is not None:
            code = result.metadata.exit_code
            return Result(result.output, code, failed=bool(code))
    rest = text
    if rest.startswith("Command: "):
        after = _AFTER_COMMAND.search(rest)
        rest = rest[after.end() :] if after else rest
    header = _HEADER.match(rest)
    if header is None:
        refused = _FAILURE.match(text) is not None
        return Result(text, failed=refused, refused=refused)
    rest = rest[header.end() :]
    exit_code = header["exited"] or header["code"]
    if exit_code is None and header["session"] is None and (within := _HEADER.match(rest)) and within["code"]:
        return of_text(rest)  # a patch that a shell command applied is told with both headers
    code = int(exit_code) if exit_code is not None else None
    return Result(
        rest,
        code,
        running=running(header["session"], header["cell"]),
        failed=bool(code) or header["script"] in ("failed", "terminated"),
    )


def running(session: object, cell: object) -> str | None:
    """The name of a running process or script; both are numbered, each by itself."""
    if session is not None:
        return f"process {session}"
    return f"script {cell}" if cell is not None else None
