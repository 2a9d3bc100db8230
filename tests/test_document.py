from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.document import Document, KeyPath, Keys, key_lines, kind, nearest, parse_document, show
from dragoman.errors import ConfigError

SAMPLE = '''\
# a comment with [brackets] = "and quotes"
top = 1
dotted.inner.leaf = true

[table]
text = "a # that = is [no] comment"
long = """
fake = 1
[fake.table]
\\""" still inside"""
literal = \'\'\'
also_fake = 2
\'\'\'
"quoted \\u00e9" = 1
'single.quoted' = 2
when = 1979-05-27 07:32:00 # a comment
items = [
  "one", # one
  [2, 3],
  { x = 1, y.z = 2 },
]
inline = { a = 1, b = { c = [1, 2] } }

[table.sub]
key = 1

[[rows]]
id = "first"
[rows.detail]
n = 1
[[rows.parts]]
p = 1
[[rows.parts]]
p = 2
[[rows]]
id = "second"
[[rows.parts]]
p = 3

[ "spaced" . 'header' ]
end = "x"
'''

LINES: list[tuple[Keys, int]] = [
    (("top",), 2),
    (("dotted",), 3),
    (("dotted", "inner", "leaf"), 3),
    (("table",), 5),
    (("table", "text"), 6),
    (("table", "long"), 7),
    (("table", "literal"), 11),
    (("table", "quoted é"), 14),
    (("table", "single.quoted"), 15),
    (("table", "when"), 16),
    (("table", "items"), 17),
    (("table", "items", 0), 18),
    (("table", "items", 1), 19),
    (("table", "items", 1, 1), 19),
    (("table", "items", 2, "x"), 20),
    (("table", "items", 2, "y", "z"), 20),
    (("table", "inline", "b", "c", 1), 22),
    (("table", "sub", "key"), 25),
    (("rows",), 27),
    (("rows", 0, "id"), 28),
    (("rows", 0, "detail", "n"), 30),
    (("rows", 0, "parts", 0, "p"), 32),
    (("rows", 0, "parts", 1, "p"), 34),
    (("rows", 1), 35),
    (("rows", 1, "id"), 36),
    (("rows", 1, "parts", 0, "p"), 38),
    (("spaced", "header"), 40),
    (("spaced", "header", "end"), 41),
]


@pytest.mark.parametrize(("keys", "line"), LINES, ids=str)
def test_the_line_of_a_key_is_found_however_it_is_written(keys: Keys, line: int) -> None:
    assert key_lines(SAMPLE)[keys] == line


def test_windows_line_ends_and_a_byte_order_mark_do_not_shift_lines() -> None:
    data = b"\xef\xbb\xbf" + b"a = 1\r\n\r\nb = 2\r\n"
    document = parse_document("x.toml", data)
    assert KeyPath(document, ("b",)).where == "x.toml:3"


def paths(value: object, path: Keys = ()) -> list[Keys]:
    """Every key path of a parsed document, as the parser sees it."""
    if isinstance(value, dict):
        return [p for key, item in value.items() for p in [(*path, key), *paths(item, (*path, key))]]
    if isinstance(value, list):
        return [p for index, item in enumerate(value) for p in [(*path, index), *paths(item, (*path, index))]]
    return []


def test_the_line_finder_sees_exactly_the_keys_that_the_parser_sees() -> None:
    assert sorted(key_lines(SAMPLE), key=str) == sorted(paths(tomllib.loads(SAMPLE)), key=str)


NAMES = st.one_of(
    st.text("abc_-1", min_size=1, max_size=3),
    st.text('é"\\ .=#[]', max_size=3).map(lambda s: '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'),
    st.text(' .=#[]"\\', max_size=3).map(lambda s: f"'{s}'"),
)
SCALARS = st.one_of(
    st.sampled_from(["1", "-2.5", "true", "1979-05-27", "1979-05-27 07:32:00", '"""\n[x]\ny = 1"""', "'''\n''''"]),
    st.text("ab #=[]{},'\"\\", max_size=6).map(lambda s: '"' + s.replace("\\", "\\\\").replace('"', '\\"') + '"'),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda items: "[ # note ]\n" + ",\n".join(items) + "\n]"),
        st.lists(st.tuples(NAMES, inner), max_size=3).map(
            lambda pairs: "{" + ", ".join(f"{key} = {value}" for key, value in pairs) + "}"
        ),
    ),
    max_leaves=6,
)
PAIRS = st.tuples(st.lists(NAMES, min_size=1, max_size=3).map(" . ".join), VALUES).map(" = ".join)
HEADERS = (
    st.lists(NAMES, min_size=1, max_size=3).map(".".join).flatmap(lambda n: st.sampled_from([f"[{n}]", f"[[{n}]]"]))
)
DOCUMENTS = st.lists(st.one_of(PAIRS, HEADERS, st.just("# x = 1")), max_size=8).map("\n".join)


@given(DOCUMENTS)
def test_of_any_document_that_parses_every_key_has_a_line(text: str) -> None:
    try:
        table = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = key_lines(text)
    assert {path for path in paths(table) if path not in lines} == set()
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())


@given(st.text("ab[]{}=.,#\"'\\\n 1"))
def test_the_line_finder_never_raises_for_any_text(text: str) -> None:
    key_lines(text)


def test_a_text_nested_beyond_reason_is_an_error_with_the_file() -> None:
    text = "x = " + "[" * 100_000
    assert key_lines(text)[("x",)] == 1
    with pytest.raises(ConfigError, match=r"^deep\.toml: values are nested too deeply"):
        parse_document("deep.toml", text.encode())


def test_a_missing_value_is_reported_at_its_parent() -> None:
    document = Document("x.toml", "[a.b]\nc = 1\n")
    assert KeyPath(document, ("a", "b", "d")).where == "x.toml:1"
    assert KeyPath(document, ("z",)).where == "x.toml"


@pytest.mark.parametrize(
    ("data", "where"),
    [
        (b"a = 1\nb = \n", "x.toml:2:5"),
        (b"a = 1\na = 2\n", "x.toml:2:6"),
        (b"ok = 1\n  [table\n", "x.toml:2:9"),
        (b'a = 1\nb = """never closed', "x.toml:2:20"),
        (b"a = 1\nb = [1,\n2", "x.toml:3:2"),
        (b"a = 1\n\n# \xff\n", "x.toml:3"),
        (b"a = " + b"9" * 5000, "x.toml"),
    ],
)
def test_a_text_that_is_no_toml_is_an_error_with_line_and_column(data: bytes, where: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_document("x.toml", data)
    assert caught.value.where == where
    assert "(at " not in str(caught.value)


def test_values_are_named_by_kind_without_being_shown() -> None:
    values = [None, True, 1, 1.5, "s", [], {}, tomllib.loads("d = 1979-05-27")["d"]]
    assert [kind(value) for value in values] == [
        "null", "a boolean", "an integer", "a number", "a string", "an array", "a table", "a date or time",
    ]  # fmt: skip


def test_shown_values_look_as_they_were_written_and_are_truncated() -> None:
    assert [show(value) for value in (True, 3, 1.5, "x", [1])] == ["true", "3", "1.5", '"x"', "an array"]
    assert show("y" * 100) == '"' + "y" * 60 + '…"'


def test_the_nearest_word_is_offered_only_when_it_is_near() -> None:
    assert nearest("Claud", ["claude", "codex"]) == "claude"
    assert nearest("zebra", ["claude", "codex"]) is None
