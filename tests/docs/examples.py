"""Examples in Markdown: what they are, and running them as a newcomer would, one after the other in one folder.

```python blocks are programs of their own; an ```output block right after one is what it prints. In ```console
blocks, lines that begin with `$ ` are typed into a shell, and what follows each is what it prints, stderr with it;
where nothing follows, nothing is compared. `…` stands for anything, spaces and line breaks for each other. A block
after `<!-- not run: why -->` is left out.

What is new each time may be another: a date and time, how long something took, and the id of a session, which a
document calls by a name of its own and uses in later commands. Behind `[y/N]: ` stands what is typed there.
"""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

# Each example takes a second or two; one that hangs shall say which it is.
LIMIT_SECONDS = 60

_BLOCK = re.compile(
    r"(?:<!-- not run: (?P<reason>[^>]+) -->\n+)?^```(?P<language>python|console)\n(?P<body>.*?)^```$"
    r"(?:\n+```output\n(?P<output>.*?)^```$)?",
    re.MULTILINE | re.DOTALL,
)


_ID = r"\b(?=[a-f]*\d)(?:[0-9a-f]{12}|[0-9a-f]{6})\b"
_NEW_EACH_TIME = re.compile(rf"(?P<id>{_ID})|(?P<time>\b\d{{4}}-\d\d-\d\d \d\d:\d\d\b)|(?P<took>\b\d+\.\ds\b)")
_ANSWER = re.compile(r"(?<=\[y/N\]: )(\w+)$", re.MULTILINE)

# What begins an id: as much of it as is shown in lists.
_SHORT = 6


@dataclass(frozen=True)
class Example:
    """One thing to run: a program, or a line for the shell."""

    where: str
    language: Literal["python", "console"]
    text: str
    expected: str | None


def examples(path: Path) -> Iterator[Example]:
    """Those of a document that are to be run, in order."""
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
    """The commands of a console block, each with what is shown under it."""
    lines = body.splitlines(keepends=True)
    starts = [index for index, text in enumerate(lines) if text.startswith("$ ")]
    for start, end in zip(starts, [*starts[1:], len(lines)], strict=True):
        # A command goes on where the line before ends with a backslash, or inside of a here-document.
        last = start
        while lines[last].endswith("\\\n"):
            last += 1
        if here := re.search(r"<<'(\w+)'", lines[start]):
            last = lines.index(f"{here[1]}\n", start)
        command = "".join(lines[start : last + 1]).removeprefix("$ ")
        expected = "".join(lines[last + 1 : end])
        yield Example(f"{name}:{line + start}", "console", command, expected or None)


def run(example: Example, folder: Path, env: Mapping[str, str], ids: Mapping[str, str]) -> str:
    """Run an example; return what it prints. AssertionError if a program fails; shell examples show their exit code."""
    if example.language == "python":
        program = folder / "example.py"
        program.write_text(example.text, encoding="utf-8")
        command = [sys.executable, str(program)]
    else:
        command = ["bash", "-c", re.sub(_ID, lambda found: ids.get(found[0], found[0]), example.text)]
    with _typing(_ANSWER.findall(example.expected or "")) as stdin:
        done = subprocess.run(
            command,
            cwd=folder,
            env=dict(env),
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=LIMIT_SECONDS,
            check=False,
        )
    printed = done.stdout.decode("utf-8")
    if example.language == "python":
        (folder / "example.py").unlink()
        assert done.returncode == 0, f"{example.where} ended with exit code {done.returncode}:\n{printed}"
    return printed


@contextmanager
def _typing(answers: list[str]) -> Iterator[int]:
    """A terminal on which this is typed; where nothing is, nobody is there to ask."""
    if not answers:
        yield subprocess.DEVNULL
        return
    person, terminal = pty.openpty()
    try:
        os.write(person, "".join(f"{answer}\n" for answer in answers).encode())
        yield terminal
    finally:
        os.close(terminal)
        os.close(person)


def matches(expected: str, printed: str, ids: MutableMapping[str, str]) -> bool:
    """Compare the output with what the document shows, word by word; line breaks may differ.

    `ids` are those of sessions: what the document calls them, and what they are; new ones are added.
    """
    new: dict[str, str] = {}
    parts = [" ".join(part.split()) for part in _ANSWER.sub("", expected).split("…")]
    pattern = ".*?".join(_pattern(part, ids, new) for part in parts)
    found = re.fullmatch(pattern, " ".join(printed.split()), re.DOTALL)
    for name, group in new.items():
        if found is not None:
            ids[name] = found[group]
    return found is not None


def _pattern(text: str, ids: Mapping[str, str], new: dict[str, str]) -> str:
    made, place = [], 0
    for varying in _NEW_EACH_TIME.finditer(text):
        made.append(re.escape(text[place : varying.start()]))
        place = varying.end()
        if varying["id"] is None:
            made.append(r"\d{4}-\d\d-\d\d \d\d:\d\d" if varying["time"] else r"\d+\.\ds")
            continue
        name, rest = varying["id"][:_SHORT], len(varying["id"]) - _SHORT
        if name in ids:
            made.append(re.escape(ids[name]))
        elif name in new:
            made.append(f"(?P={new[name]})")
        else:
            new[name] = f"id_{name}"
            made.append(f"(?P<{new[name]}>[0-9a-f]{{{_SHORT}}})")
        made.append(f"[0-9a-f]{{{rest}}}")
    return "".join([*made, re.escape(text[place:])])


def newcomer(home: Path) -> dict[str, str]:
    """The environment of someone who has just installed it: our programs, the system's, and an empty home folder."""
    return {
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.defpath}",
        "LANG": "C.UTF-8",
        "SHELL": "/bin/sh",  # its login shell has nothing of ours to read
        "DRAGOMAN_DEMO_PACE": "0",
    }
