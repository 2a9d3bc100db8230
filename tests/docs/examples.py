"""Examples in Markdown: find them, and run them as a newcomer would, one after the other in one folder.

A ```python block is a program; an ```output block right after it is its output. In a ```console block, lines that
begin with `$ ` are typed into a shell, and the lines after each are its output, stderr included; without such lines
the command must succeed, and its output is not compared. `…` matches anything; spaces and line breaks match each
other. A block after `<!-- not run: why -->` is skipped.

Values that are new in each run may differ: dates and times, durations, and the ids of sessions. A document may use an
id of its output in later commands. The text after `[y/N]: `, `Your answer …: ` and `cancel (c): ` is typed there, on a
terminal.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Each example takes a second or two; the limit names one that hangs.
LIMIT_SECONDS = 60

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<language>python|console)\n(?P<body>.*?)^```$"
    r"(?:\n+```output\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


_ID = r"\b(?=[a-f]*\d)(?:[0-9a-f]{12}|[0-9a-f]{6})\b"
_NEW_EACH_TIME = re.compile(rf"(?P<id>{_ID})|(?P<time>\b\d{{4}}-\d\d-\d\d \d\d:\d\d\b)|(?P<took>\b\d+\.\ds\b)")
_ANSWER = re.compile(r"^(.*\[y/N\]:|Your answer.*:|.*cancel \(c\):)(?: (\S+))?$", re.MULTILINE)

# The characters of an id that lists show.
_SHORT = 6


@dataclass(frozen=True)
class Example:
    """A program, or a command for the shell."""

    where: str
    language: Literal["python", "console"]
    text: str
    expected: str | None


def examples(path: Path) -> Iterator[Example]:
    """Yield the examples of a document that are run, in order."""
    document = path.read_text(encoding="utf-8")
    for block in _BLOCK.finditer(document):
        if block["reason"] is not None:
            continue
        line = document.count("\n", 0, block.start("body")) + 1
        if block["language"] == "python":
            yield Example(f"{path.name}:{line}", "python", block["body"], block["output"])
        else:
            yield from _typed(path.name, line, block["body"])


def _typed(name: str, line: int, body: str) -> Iterator[Example]:
    """Yield the commands of a console block, each with the output that the document shows."""
    lines = body.splitlines(keepends=True)
    starts = [index for index, text in enumerate(lines) if text.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        # A command continues after a backslash at the end of a line, and within a here-document.
        last = start
        while lines[last].endswith("\\\n"):
            last += 1
        if here := re.search(r"<<'(\w+)'", lines[start]):
            last = lines.index(f"{here[1]}\n", start)
        command = "".join(lines[start : last + 1]).removeprefix("$ ")
        expected = "".join(lines[last + 1 : end])
        yield Example(f"{name}:{line + start}", "console", command, expected or None)


def run(example: Example, folder: Path, env: Mapping[str, str], ids: Mapping[str, str]) -> str:
    """Run an example and return its output.

    Raises AssertionError if a program fails, or a command for which the document shows no output.
    """
    if example.language == "python":
        program = folder / "example.py"
        program.write_text(example.text, encoding="utf-8")
        command = [sys.executable, str(program)]
    else:
        command = ["bash", "-c", re.sub(_ID, lambda found: ids.get(found[0], found[0]), example.text)]
    if dialogue := _ANSWER.findall(example.expected or ""):
        return _run_on_terminal(example.where, command, folder, env, dialogue)
    done = subprocess.run(
        command,
        cwd=folder,
        env=dict(env),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    printed = done.stdout.decode("utf-8")
    if example.language == "python":
        (folder / "example.py").unlink()
    if example.language == "python" or example.expected is None:
        assert done.returncode == 0, f"{example.where} ended with exit code {done.returncode}:\n{printed}"
    return printed


def _run_on_terminal(
    where: str, command: list[str], folder: Path, env: Mapping[str, str], dialogue: list[tuple[str, str]]
) -> str:
    """Run a command on a terminal, type each answer when its question is shown, and return the output."""
    person, terminal = pty.openpty()
    with subprocess.Popen(
        command, cwd=folder, env={**env, "TERM": "dumb"}, stdin=terminal, stdout=terminal, stderr=terminal
    ) as process:
        os.close(terminal)
        timer = threading.Timer(LIMIT_SECONDS, process.kill)
        timer.start()
        shown, answered = "", 0
        try:
            while data := _read_terminal(person):
                shown += data
                while dialogue and dialogue[0][0] in " ".join(shown[answered:].split()):
                    os.write(person, f"{dialogue.pop(0)[1]}\n".encode())
                    answered = len(shown)
        finally:
            timer.cancel()
            os.close(person)
    assert not dialogue, f"{where} never asked {dialogue[0][0]!r}; it printed:\n{shown}"
    return shown


def _read_terminal(person: int) -> str:
    """Return the next output on the terminal; empty when every program on it has ended."""
    try:
        return os.read(person, 65536).decode("utf-8", "replace")
    except OSError:  # EIO on Linux, in place of the end of the file
        return ""


def matches(expected: str, printed: str, ids: MutableMapping[str, str]) -> bool:
    """Compare the output with what the document shows, word by word; line breaks may differ.

    `ids` maps the session ids of the document to the real ones; new ones are added.
    """
    new: dict[str, str] = {}
    parts = [" ".join(part.split()) for part in expected.split("…")]
    pattern = ".*?".join(_pattern(part, ids, new) for part in parts)
    found = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    for name, group in new.items():
        if found is not None:
            ids[name] = found[group]
    return found is not None


def _pattern(text: str, ids: Mapping[str, str], new: dict[str, str]) -> str:
    pieces, start = [], 0
    for varying in _NEW_EACH_TIME.finditer(text):
        pieces.append(re.escape(text[start : varying.start()]))
        start = varying.end()
        if varying["id"] is None:
            pieces.append(r"\d{4}-\d\d-\d\d \d\d:\d\d" if varying["time"] else r"\d+\.\ds")
            continue
        name, rest = varying["id"][:_SHORT], len(varying["id"]) - _SHORT
        if name in ids:
            pieces.append(re.escape(ids[name]))
        elif name in new:
            pieces.append(f"(?P={new[name]})")
        else:
            new[name] = f"id_{name}"
            pieces.append(f"(?P<{new[name]}>[0-9a-f]{{{_SHORT}}})")
        pieces.append(f"[0-9a-f]{{{rest}}}")
    return "".join([*pieces, re.escape(text[start:])])


def newcomer(home: Path) -> dict[str, str]:
    """Return the environment of a new user: Dragoman's programs, the system's, and an empty home folder."""
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",  # a login shell without start-up files
        "DRAGOMAN_DEMO_PACE": "0",
    }
