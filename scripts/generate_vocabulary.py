"""Write src/dragoman/wire/vocabulary.py from the official ACP schema, which is itself never committed.

The schema comes from the protocol's npm package, at a pinned version and hash. `schema.unstable.json` is a
superset of `schema.json`, so all shapes are read from it; the stable one only says which methods are stable.

How the schema's shapes become msgspec types:

* a def with properties               a struct; `required` alone decides which fields must be there
* alternatives with a constant tag    one tagged struct each, and a union of them under the def's name; a def
                                      that is also used without the tag stays as it is and gets tagged subclasses
* the same, with an `other` branch    the union also has an `Other…` struct, which `wire.lenient` fills
* alternatives without a common tag   one struct with the fields of all of them to read any of them, and a
                                      subclass for each alternative to build one
* closed strings, open strings, ids   `Literal`, `str`, `str`
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import json
import keyword
import re
import subprocess
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

PACKAGE = "@agentclientprotocol/sdk"
VERSION = "2.4.0"
INTEGRITY = "sha512-7qJ8nnyj7WesC5ve185ioTpB2/svQoeGV4HA4nLEhgDUrcmBe54/08VcXc/oL4p14tDbxxECZzdYmUYQ+4l+Wg=="
SCHEMAS = ("schema.json", "schema.unstable.json")
TARGET = Path(__file__).resolve().parents[1] / "src/dragoman/wire/vocabulary.py"
LINE_LENGTH = 120  # as in pyproject.toml

# Fields where null says something else than absence: the schema tells this only in prose, so it is told here.
# (To patch a record: absent leaves the value, null clears it. For MCP: null is a result, or data, like any other.)
NULL_HAS_MEANING = {
    "CompactionUpdate": "summary error _meta",
    "McpError": "data",
    "MessageMcpResponse": "result",
    "SessionInfoUpdate": "title updatedAt",
    "SessionMessage": "senderSessionId recipientSessionId senderMessageId recipientMessageId content _meta",
    "SubagentUpdate": "title description capabilities state cwd additionalDirectories _meta",
}

# Names that the schema does not give: of tagged alternatives that have no def of their own, or whose def is also
# used without the tag (unlisted ones are called by their tag); of an array's items.
NAMES = {
    ("CreateElicitationResponse", "cancel"): "ElicitationCancelAction",
    ("CreateElicitationResponse", "decline"): "ElicitationDeclineAction",
    ("RequestPermissionOutcome", "cancelled"): "CancelledPermissionOutcome",
    ("SessionConfigSelectOptions", "items"): "SessionConfigSelectItem",
    ("SessionUpdate", "tool_call_update"): "SessionToolCallUpdate",
}

# Removed from the protocol, but about half of the agents still speak it: defs as the schema would have them, less
# `_meta`, and a field that the answers to opening a session had.
REMOVED_DEFS = """{
  "ModelId": {"type": "string"},
  "ModelInfo": {"required": ["modelId", "name"], "properties": {"modelId": {"$ref": "ModelId"},
    "name": {"type": "string"}, "description": {"type": ["string", "null"], "x-deserialize-default-on-error": true}}},
  "SessionModelState": {"required": ["currentModelId", "availableModels"], "properties": {
    "currentModelId": {"$ref": "ModelId"}, "availableModels": {"type": "array", "items": {"$ref": "ModelInfo"},
      "x-deserialize-default-on-error": true, "x-deserialize-skip-invalid-items": true}}},
  "SetSessionModelRequest": {"required": ["sessionId", "modelId"], "x-method": "session/set_model", "x-side": "agent",
    "properties": {"sessionId": {"$ref": "SessionId"}, "modelId": {"$ref": "ModelId"}}},
  "SetSessionModelResponse": {"properties": {}, "x-method": "session/set_model", "x-side": "agent"}
}"""
REMOVED_FIELD = {"anyOf": [{"$ref": "SessionModelState"}, {"type": "null"}], "x-deserialize-default-on-error": True}
REMOVED_FROM = ("NewSessionResponse", "LoadSessionResponse", "ResumeSessionResponse", "ForkSessionResponse")

# Who handles a method. A proxy stands on both sides, and so does the protocol's own `$/cancel_request`.
SIDES = {"agent": "agent", "client": "client", "protocol": "both", "proxy": "both"}
# What the schema's `x-deserialize-…` marks are called in the module.
MARKS = {"default-on-error": "e", "skip-invalid-items": "s", "default-on-null": "n"}
PRIMITIVES = {"string": "str", "boolean": "bool", "integer": "int", "number": "float", "null": "None"}


@dataclass(frozen=True)
class Field:
    wire: str
    type: str
    required: bool
    default: str = ""
    marks: str = ""


@dataclass(frozen=True)
class Struct:
    name: str
    fields: dict[str, Field]
    base: str = "WireStruct"
    tag: tuple[str, str] | None = None  # field and value


def branches_of(schema: Schema) -> list[Schema]:
    return list(schema.get("oneOf") or schema.get("anyOf") or [])


def known_branches_of(schema: Schema) -> list[Schema]:
    return [branch for branch in branches_of(schema) if branch.get("title") != "other"]


def tag_of(branch: Schema) -> tuple[str, str] | None:
    consts = [(name, part["const"]) for name, part in branch.get("properties", {}).items() if "const" in part]
    return consts[0] if consts else None


def is_tagged_union(schema: Schema) -> bool:
    """Return whether every branch except the open one has a constant in the same field."""
    tags = [tag_of(branch) for branch in known_branches_of(schema)]
    return bool(tags) and all(tags) and len({tag[0] for tag in tags if tag}) == 1


def ref_of(schema: Schema) -> str | None:
    """Return the name of the def that a schema refers to."""
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    return ref_of(schema["allOf"][0]) if len(schema.get("allOf", ())) == 1 else None


def items_of(schema: Schema) -> str | None:
    return ref_of(schema["items"]) if "items" in schema else None


def refs_in(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict) and "$ref" in schema:
        yield str(ref_of(schema))
    elif isinstance(schema, dict | list):
        for part in schema.values() if isinstance(schema, dict) else schema:
            yield from refs_in(part)


def snake(wire: str) -> str:
    name = re.sub(r"(?<=[a-z0-9])([A-Z])", lambda match: "_" + match[1].lower(), wire).lstrip("_")
    if keyword.iskeyword(name) or not name.isidentifier():
        raise ValueError(f"the schema's field {wire!r} cannot be a Python name: give it one in snake()")
    return name


class Reader:
    """A reader that turns the schema's defs into structs and aliases."""

    def __init__(self, defs: dict[str, Schema]) -> None:
        self.defs = {name: schema for name, schema in defs.items() if not schema.get("x-docs-ignore")}
        self.structs: dict[str, Struct] = {}
        self.names: dict[str, list[str]] = {}  # aliases of strings and numbers
        self.unions: dict[str, list[str]] = {}  # aliases of structs
        # How often a def is used as a value, and how often as a tagged branch: both together need a subclass.
        self.as_value = Counter(ref for schema in self.defs.values() for ref in refs_in(schema.get("properties")))
        self.as_branch: Counter[str] = Counter()
        self.subclasses: set[str] = set()  # untagged branches: each extends a struct with the fields of all
        self.parts: set[str] = set()  # untagged branches that only add fields to the def they are in
        for schema in self.defs.values():
            refs = [ref for branch in branches_of(schema) if (ref := ref_of(branch) or items_of(branch))]
            if is_tagged_union(schema):
                self.as_branch.update(refs)
            elif "properties" in schema:
                self.parts.update(refs)
            elif len(refs) > 1:
                self.subclasses.update(refs)

    def read(self) -> Reader:
        for name, schema in sorted(self.defs.items()):
            if branches_of(schema):
                self.read_branches(name, schema)
            elif "properties" in schema or schema.get("type") == "object":
                self.read_struct(name, schema)
            elif ref := ref_of(schema):
                self.unions[name] = [ref]
            elif "type" in schema:
                self.names[name] = [PRIMITIVES[schema["type"]]]
            elif "x-method" in schema:  # any JSON, to be handed on as it is
                self.names[name] = ["msgspec.Raw"]
        return self

    def add(self, name: str, fields: dict[str, Field], **more: Any) -> None:
        if name in self.structs:
            raise ValueError(f"two shapes of the schema are both called {name}: name one of them apart in NAMES")
        self.structs[name] = Struct(name, fields, **more)

    def is_tagged_itself(self, name: str) -> bool:
        return self.as_branch[name] == 1 and not self.as_value[name]

    def read_struct(self, name: str, schema: Schema) -> None:
        only_a_part = name in self.parts and not self.as_value[name]
        if not self.is_tagged_itself(name) and not only_a_part and name not in self.subclasses:
            self.add(name, self.fields_of(name, schema))

    def read_branches(self, name: str, schema: Schema) -> None:
        branches = branches_of(schema)
        if is_tagged_union(schema):
            self.read_tagged(name, schema)
        elif all(branch.get("type") in {*PRIMITIVES, "array"} for branch in branches):
            self.read_values(name, branches)
        elif "properties" in schema:
            self.read_struct(name, schema)
        elif len(branches) == 1 and (ref := ref_of(branches[0])):
            self.unions[name] = [ref]
        else:
            self.read_untagged(name, schema)

    def read_values(self, name: str, branches: Sequence[Schema]) -> None:
        """Read constants, plain values with at most one kind of array, or arrays of structs that are read as one."""
        known = [json.dumps(branch["const"]) for branch in branches if "const" in branch]
        kinds = list(dict.fromkeys(self.type_of(branch) for branch in branches))
        if items := [{"$ref": ref} for branch in branches if (ref := items_of(branch))]:
            self.read_untagged(NAMES[name, "items"], {"anyOf": items})
            self.unions[name] = [f"tuple[{NAMES[name, 'items']}, ...]"]
        elif len(known) == len(branches):
            self.names[name] = [f"Literal[{', '.join(known)}]"]
        elif known and kinds == ["str"]:
            self.names[name] = [f"str  # {', '.join(json.loads(value) for value in known)}, …"]
        else:
            self.names[name] = sorted(kinds, key=lambda kind: kind == "None")

    def read_tagged(self, name: str, schema: Schema) -> None:
        common = self.fields_of(name, {part: schema[part] for part in ("properties", "required") if part in schema})
        tag_field = next(tag[0] for branch in branches_of(schema) if (tag := tag_of(branch)))
        members = self.unions[name] = []
        for branch in branches_of(schema):
            ref, tag = ref_of(branch), tag_of(branch)
            if tag is None:
                members.append(f"Other{name}")
                unknown_fields = {"kind": Field("kind", "str", True), "raw": Field("raw", "Verbatim", True)}
                self.add(members[-1], unknown_fields, tag=(tag_field, ""))
            elif ref and self.is_tagged_itself(ref):
                members.append(ref)
                self.add(ref, common | self.fields_of(ref, self.defs[ref]), tag=tag)
            else:
                by_tag = "".join(part.capitalize() for part in tag[1].split("_"))
                members.append(NAMES.get((name, tag[1]), by_tag))
                self.add(members[-1], {} if ref else common, base=ref or Struct.base, tag=tag)

    def read_untagged(self, name: str, schema: Schema) -> None:
        merged = self.fields_of(name, schema)
        self.add(name, merged)
        for branch in branches_of(schema):
            if ref := ref_of(branch):
                fields = self.fields_of(ref, self.defs[ref])
                own = {wire: part for wire, part in fields.items() if part.required and not merged[wire].required}
                if tag := tag_of(branch):
                    own[tag[0]] = constant(*tag)
                self.add(ref, own, base=name)

    def fields_of(self, owner: str, schema: Schema) -> dict[str, Field]:
        """Return the fields of a def and of all its branches; a field that not every branch requires is optional."""
        fields = {
            wire: self.field_of(owner, wire, part, wire in schema.get("required", ()))
            for wire, part in schema.get("properties", {}).items()
        }
        if ref := ref_of(schema):
            fields |= self.fields_of(ref, self.defs[ref])
        branches = [self.fields_of(owner, branch) for branch in known_branches_of(schema)]
        for wire in dict.fromkeys(wire for branch in branches for wire in branch):
            found = [branch[wire] for branch in branches if wire in branch]
            required = len(found) == len(branches) and all(part.required for part in found)
            kinds = [kind for part in found for kind in part.type.split(" | ")]
            kind = " | ".join(sorted(dict.fromkeys(kinds), key=lambda kind: kind == "None"))
            marks = "".join(letter for letter in MARKS.values() if any(letter in part.marks for part in found))
            fields.setdefault(wire, with_default(owner, Field(wire, kind, required, marks=marks)))
        return fields

    def field_of(self, owner: str, wire: str, schema: Schema, required: bool) -> Field:
        marks = "".join(letter for mark, letter in MARKS.items() if schema.get(f"x-deserialize-{mark}"))
        if wire == "_meta" and marks != "e":
            raise ValueError(f"{owner}._meta is not marked default-on-error, which wire.lenient takes for granted")
        kind = "str" if "const" in schema else self.type_of(schema)
        found = Field(wire, kind, required, marks=marks)
        match schema.get("default"):
            case bool(value):
                return replace(found, default=str(value))
            case str(value):
                return replace(found, default=constant(wire, value).default)
            case dict() if kind in self.defs:
                return replace(found, default=f"{kind}()")
        return with_default(owner, found)

    def type_of(self, schema: Schema) -> str:
        if ref := ref_of(schema):
            return ref
        if "anyOf" in schema:
            return " | ".join(self.type_of(part) for part in schema["anyOf"])
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self.kind_of(kind, schema) for kind in kinds) or "Any"

    def kind_of(self, kind: str, schema: Schema) -> str:
        if kind == "array":
            return f"tuple[{self.type_of(schema['items'])}, ...]"
        if kind == "object":
            values = schema.get("additionalProperties")
            return f"dict[str, {self.type_of(values) if isinstance(values, dict) else 'Any'}]"
        return PRIMITIVES[kind]


def with_default(owner: str, found: Field) -> Field:
    """Return the field with the default that its absence means: unset, or empty."""
    if found.required:
        return found
    kind = found.type.removesuffix(" | None")
    if found.wire in NULL_HAS_MEANING.get(owner, "").split():
        kind = kind if kind == "Any" else f"{kind} | msgspec.UnsetType | None"
        return replace(found, type=kind, default="msgspec.UNSET")
    if kind == found.type and kind.startswith(("tuple[", "dict[")):
        return replace(found, default="()" if kind.startswith("tuple[") else "{}")
    return replace(found, type=kind if kind == "Any" else f"{kind} | None", default="None")


def constant(wire: str, value: str) -> Field:
    """Return a field with a constant value. It uses a factory, because a plain default would be omitted on the wire."""
    text = json.dumps(value)
    return Field(wire, f"Literal[{text}]", False, f"msgspec.field(default_factory=lambda: {text})")


HEADER = f'''"""The words of the Agent Client Protocol, version 1, stable and unstable, as msgspec types.

Generated by scripts/generate_vocabulary.py from the schema in {PACKAGE} {VERSION}. Do not edit.

Typed values are for reading, and for building the messages that Dragoman sends; the messages of a peer are stored and
forwarded as their own bytes. Decode with `dragoman.wire.lenient`, which also reads slightly malformed values. An
optional field is None, or empty, when it was absent. Where null differs from absence (clear this, do not leave it),
absence is `msgspec.UNSET`.
"""

from __future__ import annotations

from types import UnionType
from typing import Any, Literal, TypeAlias

import msgspec

PROTOCOL_VERSION = 1
SCHEMA_VERSION = "{VERSION}"

# Python's name of a field to the wire's, where they differ.
WIRE_NAMES = {{
%s
}}


class WireStruct(msgspec.Struct, frozen=True, gc=False, omit_defaults=True, rename=WIRE_NAMES):
    """The base of all."""


class Verbatim(bytes):
    """A part of a frame of a kind we do not know. It is for reading: encoding it again is refused."""

    __slots__ = ()


class Method(msgspec.Struct, frozen=True, gc=False):
    """`side` is who handles it; `result` is None for a notification."""

    name: str
    side: Literal["agent", "client", "both"]
    kind: Literal["request", "notification"]
    params: type | UnionType
    result: type | UnionType | None
    stable: bool


'''

FOOTER = """
# What to do with a bad field, by struct and by the field's name on the wire. e: take its default; s: leave
# invalid items out; n: null is its default. `_meta` is e everywhere.
REPAIRS: dict[str, dict[str, str]] = {
%s}

NOTIFICATIONS: dict[str, Method] = {
%s}

# By name. Where one name is a request and a notification as well, it is the request here.
METHODS: dict[str, Method] = NOTIFICATIONS | {
%s}
"""


def layout(head: str, parts: Sequence[str], tail: str, indent: str = "") -> str:
    """Return code in the layout of `ruff format`: on one line if it fits, otherwise with one line per part."""
    line = f"{indent}{head}{', '.join(parts)}{tail}"
    if len(line) <= LINE_LENGTH:
        return line + "\n"
    return f"{indent}{head}\n" + "".join(f"{indent}    {part},\n" for part in parts) + f"{indent}{tail}\n"


def render(defs: dict[str, Schema], stable: Iterable[str]) -> str:
    reader = Reader(defs).read()
    structs = reader.structs
    # By name, but after what a struct extends or has as a default.
    order: TopologicalSorter[str] = TopologicalSorter()
    for name, struct in sorted(structs.items()):
        needed = [struct.base, *(part.default.removesuffix("()") for part in struct.fields.values())]
        order.add(name, *(other for other in needed if other in structs))
    renamed = {snake(part.wire): part.wire for struct in structs.values() for part in struct.fields.values()}
    text = HEADER % "\n".join(f'    "{name}": "{wire}",' for name, wire in sorted(renamed.items()) if name != wire)
    text += "".join(render_alias(name, members) for name, members in reader.names.items())
    text += "".join(render_struct(structs[name]) for name in order.static_order()) + "\n\n"
    text += "".join(render_alias(name, members) for name, members in reader.unions.items())
    notifications, requests = (render_methods(defs, kind, set(stable)) for kind in ("Notification", "Request"))
    return text + FOOTER % (render_repairs(structs), notifications, requests)


def render_alias(name: str, members: Sequence[str]) -> str:
    head = f"{name}: TypeAlias = "
    if members[0].startswith("Literal["):
        return layout(f"{head}Literal[", members[0][8:-1].split(", "), "]")
    lines = (head + " | ".join(members), f"{head}(\n    {' | '.join(members)}\n)")
    fitting = [line for line in lines if max(map(len, line.splitlines())) <= LINE_LENGTH]
    return (fitting[0] if fitting else head + "(\n    " + "\n    | ".join(members) + "\n)") + "\n"


def render_struct(struct: Struct) -> str:
    tag = [f'tag_field="{struct.tag[0]}"', f'tag="{struct.tag[1]}"'] if struct.tag else []
    lines = [
        f"    {snake(part.wire)}: {part.type}" + ("" if part.required else f" = {part.default}") + "\n"
        for part in sorted(struct.fields.values(), key=lambda part: (part.wire == "_meta", not part.required))
    ]
    head = layout(f"class {struct.name}(", [struct.base, *tag, "frozen=True", "kw_only=True"], "):")
    return "\n\n" + head + "".join(lines or ["    pass\n"])


def render_repairs(structs: dict[str, Struct]) -> str:
    text = ""
    for name, struct in sorted(structs.items()):
        fields = (part for part in struct.fields.values() if part.marks and part.wire != "_meta")
        if marks := [f'"{part.wire}": "{part.marks}"' for part in fields]:
            text += layout(f'"{name}": {{', marks, "},", "    ")
    return text


def render_methods(defs: dict[str, Schema], kind: str, stable: set[str]) -> str:
    text = ""
    for name, schema in sorted(defs.items(), key=lambda item: str(item[1].get("x-method"))):
        if "x-method" in schema and name.endswith(kind):
            method, side = json.dumps(schema["x-method"]), SIDES[schema["x-side"]]
            result = name.removesuffix("Request") + "Response" if kind == "Request" else "None"
            parts = [method, f'"{side}"', f'"{kind.lower()}"', name, result, str(name in stable)]
            text += layout(f"{method}: Method(", parts, "),", "    ")
    return text


def fetch(folder: Path) -> Path:
    """Download the pinned package with npm, check its hash, and return its schema folder."""
    command = ["npm", "pack", f"{PACKAGE}@{VERSION}", "--silent", "--pack-destination", str(folder)]
    try:
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
    except (OSError, subprocess.CalledProcessError) as problem:
        raise SystemExit(
            f"cannot fetch {PACKAGE}: {problem}. Check npm and the network, or use --schema-dir."
        ) from None
    archive = next(folder.glob("*.tgz"))
    found = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    if found != INTEGRITY:
        raise SystemExit(f"{PACKAGE} {VERSION} is not what it was: expected {INTEGRITY}, got {found}. Nothing written.")
    with tarfile.open(archive) as package:
        for name in SCHEMAS:  # by their content: what else an archive can ask for is not wanted
            member = package.extractfile(f"package/schema/v1/{name}")
            assert member is not None
            target = folder / "package" / "schema" / "v1" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(member.read())
    return folder / "package/schema/v1"


def generate(schema_dir: Path) -> str:
    stable, defs = (json.loads((schema_dir / name).read_text(encoding="utf-8"))["$defs"] for name in SCHEMAS)
    if missing := set(stable) - set(defs):
        raise SystemExit(f"schema.unstable.json is no superset of schema.json any more: it lacks {sorted(missing)}")
    for name, schema in json.loads(REMOVED_DEFS).items():
        defs[name] = schema
        if "properties" in schema:
            schema["properties"]["_meta"] = defs["NewSessionResponse"]["properties"]["_meta"]
    for name in REMOVED_FROM:
        defs[name]["properties"]["models"] = REMOVED_FIELD
    return render(defs, stable)


def main() -> None:
    parser = argparse.ArgumentParser(description="Generate the ACP vocabulary from the official schema.")
    parser.add_argument("--schema-dir", type=Path, help="where both schemas are; default: fetch them with npm")
    parser.add_argument("--check", action="store_true", help="write nothing; fail when the module is out of date")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = generate(options.schema_dir or fetch(Path(folder)))
    if not options.check:
        TARGET.write_text(text, encoding="utf-8")
    elif TARGET.read_text(encoding="utf-8") != text:
        raise SystemExit(f"{TARGET} is not what the schema gives: run {Path(__file__).name} and commit the result")


if __name__ == "__main__":
    main()
