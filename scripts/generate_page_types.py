"""Writes web/src/protocol.ts, the page's types, from those of the bridge: what crosses the socket is written down once.

The modules are read as source, not as types, because only there does a union still have its name, and a field the
comment that explains it. How what is found there becomes TypeScript:

* a struct the server sends       an interface with every field required
* a struct the client sends       an interface where a field with a default may be left out
* a tag                           a field with a constant
* a `TypeAlias`                   a type of the same name
* `Any`                           `unknown`: the page looks before it uses it
* a docstring, a comment          a doc comment
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import textwrap
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path

from dragoman.bridge import asked, messages

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "web/src/protocol.ts"
# Where the types stand, and how the names of those end that cross the socket.
SOURCES = {
    "bridge/payload": "",
    "bridge/messages": "",
    "bridge/answers": "",
    "hub/commands": "Attachment",
    "bridge/asked": "",
}
LINE_LENGTH = 120  # as in pyproject.toml

ROOTS = frozenset({"Out", "In", "Struct"})

NAMES = {"str": "string", "int": "number", "float": "number", "bool": "boolean", "Any": "unknown", "None": "null"}

HEADER = """\
// Made by scripts/generate_page_types.py from the types in src/dragoman/bridge. `make types` makes it anew; a change
// made here by hand is lost.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only say whether the file is up to date")
    if parser.parse_args().check:
        if not TARGET.exists() or TARGET.read_text() != generate():
            sys.exit(f"{TARGET.relative_to(ROOT)} is out of date: run `make types`")
        return
    TARGET.write_text(generate())


def generate() -> str:
    seen: set[str] = set()
    parts = [HEADER, f"export const PROTOCOL = {messages.PROTOCOL};\n"]
    client = {"In"}
    for module, ending in SOURCES.items():
        source = (ROOT / f"src/dragoman/{module}.py").read_text()
        parts += _module(source, ending, seen, client)
    parts.append(_union("Snapshot", (kind.__name__ for kind in messages.SNAPSHOTS)))
    parts.append(_union("Update", (kind.__name__ for kind in messages.UPDATES)))
    parts.append(_union("FromServer", (kind.__name__ for kind in messages.FROM_SERVER)))
    results = "".join(
        f'  "{control.__struct_config__.tag}": {result.__name__};\n' for control, result in asked.RESULTS.items()
    )
    parts.append(f"/** What each control is answered with. */\nexport interface ResultOf {{\n{results}}}\n")
    return "\n".join(parts)


def _module(source: str, ending: str, seen: set[str], client: set[str]) -> Iterator[str]:
    comments = _comments(source)
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name) if name not in ROOTS:
                base = ast.unparse(node.bases[0]).rsplit(".", 1)[-1]
                if base in client or any(keyword.arg == "forbid_unknown_fields" for keyword in node.keywords):
                    client.add(name)
                if name.startswith("_") or not name.endswith(ending):
                    continue
                _claim(name, seen)
                yield _interface(node, base, comments, optional=name in client)
            case ast.AnnAssign(
                target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias"), value=ast.expr() as value
            ):
                if name.endswith(ending):
                    _claim(name, seen)
                    yield _alias(name, value)
            case _:
                pass


def _claim(name: str, seen: set[str]) -> None:
    if name in seen:
        sys.exit(f"two types of the bridge are called {name}: the page's types are in one file, so rename one of them")
    seen.add(name)


def _interface(node: ast.ClassDef, base: str, comments: dict[int, str], *, optional: bool) -> str:
    keywords = {keyword.arg: keyword.value for keyword in node.keywords}
    lines: list[str] = []
    if "tag" in keywords:
        field = ast.literal_eval(keywords["tag_field"]) if "tag_field" in keywords else "type"
        lines.append(f'  {field}: "{ast.literal_eval(keywords["tag"])}";')
    for part in node.body:
        match part:
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation, value=value):
                lines += _doc(comments.get(part.end_lineno or 0, ""), "  ")
                mark = "?" if optional and value is not None else ""
                lines.append(f"  {name}{mark}: {_type(annotation)};")
            case _:
                pass
    doc = "".join(line + "\n" for line in _doc(ast.get_docstring(node) or ""))
    if not lines:
        return f"{doc}export type {node.name} = Record<string, never>;\n"
    extends = "" if base in ROOTS or base.startswith("_") else f" extends {base}"
    return f"{doc}export interface {node.name}{extends} {{\n" + "\n".join(lines) + "\n}\n"


def _alias(name: str, value: ast.expr) -> str:
    if isinstance(value, ast.BinOp):
        return _union(name, _members(value))
    return f"export type {name} = {_type(value)};\n"


def _union(name: str, members: Iterable[str]) -> str:
    members = list(members)
    line = f"export type {name} = {' | '.join(members)};"
    if len(line) > LINE_LENGTH:
        line = f"export type {name} =\n" + "\n".join(f"  | {member}" for member in members) + ";"
    return line + "\n"


def _members(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.BinOp):
        yield from _members(node.left)
        yield from _members(node.right)
    else:
        yield _type(node)


def _type(node: ast.expr) -> str:
    match node:
        case ast.Name(id=name):
            return NAMES.get(name, name)
        case ast.Constant(value=None):
            return "null"
        case ast.BinOp(op=ast.BitOr()):
            return " | ".join(_members(node))
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            values = inner.elts if isinstance(inner, ast.Tuple) else [inner]
            return " | ".join(f'"{ast.literal_eval(value)}"' for value in values)
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=[item, ast.Constant(value=end)])) if (
            end is Ellipsis
        ):
            kind = _type(item)
            return f"readonly ({kind})[]" if " " in kind else f"readonly {kind}[]"
        case ast.Subscript(value=ast.Name(id="tuple"), slice=ast.Tuple(elts=items)):
            return f"readonly [{', '.join(_type(item) for item in items)}]"
        case ast.Subscript(value=ast.Name(id="dict"), slice=ast.Tuple(elts=[key, value])):
            return f"Readonly<Record<{_type(key)}, {_type(value)}>>"
        case _:
            sys.exit(f"no TypeScript is known for {ast.unparse(node)}: teach scripts/generate_page_types.py")


def _comments(source: str) -> dict[int, str]:
    """Return the trailing comments, by line number."""
    return {
        token.start[0]: token.string.lstrip("# ")
        for token in tokenize.generate_tokens(io.StringIO(source).readline)
        if token.type == tokenize.COMMENT and token.line[: token.start[1]].strip()
    }


def _doc(text: str, indent: str = "") -> list[str]:
    # A closing mark within the text would end the comment.
    text = text.strip().replace("*/", "* /")
    if not text:
        return []
    if len(one := f"{indent}/** {text} */") <= LINE_LENGTH and "\n" not in text:
        return [one]
    width = LINE_LENGTH - len(indent) - 3
    lines = [line for part in text.split("\n\n") for line in ("", *textwrap.wrap(" ".join(part.split()), width))]
    return [f"{indent}/**", *(f"{indent} * {line}".rstrip() for line in lines[1:]), f"{indent} */"]


if __name__ == "__main__":
    main()
