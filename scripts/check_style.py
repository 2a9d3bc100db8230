"""Check names and docstrings: no bare participle as an identifier, no docstring that begins with a pronoun.

    python scripts/check_style.py [PATH ...]      # the whole tree by default

Python files are parsed; TypeScript files are read token by token, without comments and strings. Prints each finding as
`file:line: message` and exits with 1 when there is one.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("src", "tests", "bench", "scripts", "web/src", "web/test")
SKIPPED = {"node_modules", "vocabulary.py"}

# A name that is only one of these words says nothing about what it holds: `asked_at` and `kept_rows` do.
BARE_PARTICIPLES = frozenset({"told", "said", "kept", "held", "asked", "anew", "at_hand", "athand"})

# A docstring begins with a verb or with the noun that it describes.
VAGUE_OPENINGS = frozenset(
    {"What", "Who", "Whose", "Whoever", "Whether", "How", "It", "Its", "Where", "They", "Nobody"}
)

_TS_NOISE = re.compile(
    r"/\*.*?\*/|//[^\n]*|'(?:\\.|[^'\\\n])*'|\"(?:\\.|[^\"\\\n])*\"|`(?:\\.|[^`\\])*`|>[^<>{}]*<",
    re.DOTALL,
)
_TS_WORD = re.compile(r"[A-Za-z_$][\w$]*")


def is_bare(name: str) -> bool:
    return name.strip("_").lower() in BARE_PARTICIPLES


def python_findings(path: Path) -> Iterator[tuple[int, str]]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        for line, name in _names_bound_by(node):
            if is_bare(name):
                yield line, f"the name {name!r} does not say what it holds"
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            opening = re.match(r"[A-Za-z]+", docstring or "")
            if opening is not None and opening[0] in VAGUE_OPENINGS:
                yield (
                    getattr(node, "lineno", 1),
                    f"the docstring begins with {opening[0]!r}: name the actor or the thing",
                )


def _names_bound_by(node: ast.AST) -> Iterator[tuple[int, str]]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield node.lineno, name
        case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
            yield node.lineno, name
        case ast.alias(asname=str(name)):
            yield node.lineno, name
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
            yield node.lineno, name
        case _:
            pass


def typescript_findings(path: Path) -> Iterator[tuple[int, str]]:
    text = path.read_text(encoding="utf-8")
    blanked = _TS_NOISE.sub(lambda noise: re.sub(r"[^\n]", " ", noise[0]), text)
    for number, line in enumerate(blanked.splitlines(), start=1):
        for word in _TS_WORD.findall(line):
            if is_bare(word):
                yield number, f"the name {word!r} does not say what it holds"


def findings(path: Path) -> Iterator[tuple[int, str]]:
    if is_bare(path.stem):
        yield 1, f"the module name {path.stem!r} does not say what it holds"
    yield from (python_findings if path.suffix == ".py" else typescript_findings)(path)


def source_files(arguments: list[str]) -> Iterator[Path]:
    for folder in [Path(argument) for argument in arguments] or [ROOT / folder for folder in FOLDERS]:
        if folder.is_file():
            yield folder
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".py", ".ts", ".tsx"} and not SKIPPED & set(path.relative_to(folder).parts):
                yield path


def main() -> int:
    count = 0
    for path in source_files(sys.argv[1:]):
        for line, message in findings(path):
            count += 1
            shown = path.relative_to(ROOT) if path.is_relative_to(ROOT) else path
            print(f"{shown}:{line}: {message}")
    if count:
        print(f"{count} findings")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
