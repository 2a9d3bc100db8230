"""Check names and docstrings: no bare participle as a name, no docstring that begins with a pronoun or with "Returns".

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
    {"What", "Who", "Whose", "Whoever", "Whether", "How", "It", "Its", "Where", "They", "Nobody", "As"}
)

# The docstring of a function says "Return", not "Returns". Every first word with an s at its end counts as such a verb,
# except plural nouns; the second group are verbs where an object follows ("Runs the agent", but "Runs of a session").
_PLURAL_NOUNS = re.compile(
    r"Agents|Arguments|Attachments|Bytes|Choices|Columns|Commands|Constants|Entries|Errors|Events|Fields"
    r"|Frames|Headers|Ids|Items|Keys|Limits|Lines|Messages|Names|Numbers|Operations|Options|Paths|Permissions|Positions"
    r"|Questions|Rows|Rules|Seconds|Sessions|Settings|Status|Texts|This|Thoughts|Times|Titles|Tokens|Tools|Transcripts"
    r"|Updates|Values|Words"
)
_NOUNS_OR_VERBS = re.compile(
    r"Answers|Blocks|Calls|Changes|Files|Links|Lists|Matches|Notes|Processes|Prompts|Requests|Results|Runs|Streams|Writes"
)
_OBJECT = re.compile(r" (?:an?|the|it|its|all|each|every|this|these|them|what|whatever)\b|\.")

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
            line, docstring = getattr(node, "lineno", 1), ast.get_docstring(node) or ""
            opening = re.match(r"[A-Za-z]+", docstring)
            if opening is not None and opening[0] in VAGUE_OPENINGS:
                yield line, f"the docstring begins with {opening[0]!r}: name the actor or the thing"
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and (verb := third_person_verb(docstring)):
                yield line, f"the docstring begins with {verb!r}: use the imperative, or a noun"


def third_person_verb(docstring: str) -> str | None:
    """Return the first word of a docstring if it is a verb in the third person, such as "Returns"."""
    opening = re.match(r"[A-Z][a-z]*(?<!s)s\b", docstring)
    if opening is None or _PLURAL_NOUNS.fullmatch(opening[0]):
        return None
    is_noun = _NOUNS_OR_VERBS.fullmatch(opening[0]) and not _OBJECT.match(docstring, opening.end())
    return None if is_noun else opening[0]


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
