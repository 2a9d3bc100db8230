"""Examples in the documents run and print what is shown, links lead somewhere, and tables match the code."""

from __future__ import annotations

import pkgutil
import re
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from dragoman import errors, events
from dragoman.cli import exits
from dragoman.cli.run import EPILOG
from dragoman.config import Access
from dragoman.journal.entry import Origin
from dragoman.protocol.messages import Scope
from translate.claude_talk import SESSION, Transcript

from . import examples

ROOT = Path(__file__).resolve().parents[2]
GUIDE = ROOT / "docs" / "guide.md"
GLOSSARY = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8").partition("## Words with more than one")[0]
DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])

# Documents whose examples need more than a home folder, such as a server, and the tests that run them.
RUN_ELSEWHERE = {"backend-adapter.md": "tests/backend/test_document.py", "remote.md": "tests/remote/test_guide.py"}

# A path that CONTRIBUTING.md gives as a pattern.
PRESET_TEMPLATE = "src/dragoman/agents/presets/NAME.toml"

# Generated documents: their Python blocks are signatures, not programs.
GENERATED = ROOT / "docs" / "reference"

WITH_EXAMPLES = [
    path
    for path in DOCUMENTS
    if path.parent != GENERATED and path.name not in RUN_ELSEWHERE and next(examples.examples(path), None) is not None
]


def write_transcript(home: Path) -> None:
    """Give the newcomer a transcript of Claude Code."""
    talk = Transcript()
    talk.user("Which files are here?")
    talk.call("Bash", {"command": "ls", "description": "List files"})
    talk.result("a.py")
    talk.text("Only a.py.", id="msg_2")
    file = home / ".claude" / "projects" / "-home-ada-proj" / f"{SESSION}.jsonl"
    file.parent.mkdir(parents=True)
    file.write_bytes(b"".join(line + b"\n" for line in talk.lines))


# Those of the README run each time, and all others with the slow tests.
EXAMPLE_CASES = [
    pytest.param(document, id=document.stem, marks=() if document.stem == "README" else pytest.mark.slow)
    for document in WITH_EXAMPLES
]


@pytest.mark.timeout(240)  # dozens of real runs, one after the other
@pytest.mark.parametrize("document", EXAMPLE_CASES)
def test_every_example_runs_and_prints_what_is_shown(document: Path, tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "README.md").write_text("# My project\n")
    env = examples.newcomer(tmp_path)
    write_transcript(tmp_path)
    ids: dict[str, str] = {}
    wrong = []
    for example in examples.examples(document):
        printed = examples.run(example, folder, env, ids)
        if example.expected is not None and not examples.matches(example.expected, printed, ids):
            wrong.append(f"{example.where}\n{example.text}--- shown:\n{example.expected}--- printed:\n{printed}")
    assert not wrong, "\n\n".join(wrong)


def test_the_examples_of_other_documents_are_run_by_their_own_tests() -> None:
    for document, test in RUN_ELSEWHERE.items():
        assert f'"{document}"' in (ROOT / test).read_text(encoding="utf-8")
    assert {"README", "guide", "policy", "rogue-agent", "sessions", "tools", "transcripts"} <= {
        path.stem for path in WITH_EXAMPLES
    }


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_inside_the_project_leads_somewhere(document: Path) -> None:
    text = re.sub(r"```.*?```|`[^`\n]*`", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    broken = []
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        path = (document.parent / name).resolve() if name else document
        if not path.exists() or (anchor and anchor not in _anchors(path)):
            broken.append(target)
    assert not broken


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_and_module_that_a_document_names_exists(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    files = set(re.findall(r"`((?:\w[\w.-]*/)+[\w-]+\.(?:py|tsx?|mjs|toml))`", text)) - {PRESET_TEMPLATE}
    folders = (ROOT, ROOT / "src", ROOT / "src" / "dragoman")
    assert {name for name in files if not any((folder / name).exists() for folder in folders)} == set()
    names = set(re.findall(r"`(dragoman(?:\.\w+)+)[`(]", text)) - {"dragoman.localhost"}
    names |= set(re.findall(r"^from (dragoman(?:\.\w+)+) import", text, re.MULTILINE))
    assert {name for name in names if not _is_defined(name)} == set()


def _is_defined(name: str) -> bool:
    """Return whether a dotted name is a module, or an attribute of one."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def _anchors(path: Path) -> set[str]:
    """Return the anchors that a Markdown page gets for its headings."""
    heads = re.findall(r"^#+ (.+)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


def test_the_reference_is_what_the_code_says() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "generate_reference.py"), "--check"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_the_index_of_decisions_lists_each_with_its_title() -> None:
    index = (ROOT / "docs" / "adr" / "index.md").read_text(encoding="utf-8")
    decisions = sorted((ROOT / "docs" / "adr").glob("0*.md"))
    titles = [path.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ") for path in decisions]
    assert re.findall(r"^- \[(.+)\]\((.+)\)$", index, re.MULTILINE) == [
        (title, path.name) for title, path in zip(titles, decisions, strict=True)
    ]


def test_the_readme_lists_every_preset() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    listed = re.findall(r"`(\w+)`", readme.partition("## Agents")[2].partition("Any other agent")[0])
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "src/dragoman/agents/presets").glob("*.toml"))


def test_the_readme_names_both_commands_and_the_index_every_page() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert {"make run", "make test"} <= set(re.findall(r"^\$ (make \w+)", readme, re.MULTILINE))
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    pages = {path.relative_to(ROOT / "docs") for path in DOCUMENTS if path.is_relative_to(ROOT / "docs")}
    listed = {Path(target.partition("#")[0]) for target in re.findall(r"\]\(([^)]+\.md[^)]*)\)", index)}
    assert {page for page in pages if page.parent.name != "adr"} - {Path("index.md")} - listed == set()


@pytest.mark.parametrize(
    ("word", "values"),
    [("origin", get_args(Origin)), ("access", get_args(Access)), ("token", get_args(Scope))],
    ids=["origin", "access", "scope"],
)
def test_the_glossary_lists_the_values_that_the_code_knows(word: str, values: tuple[str, ...]) -> None:
    [row] = re.findall(rf"^\| \*\*{word}\*\* \| (.+) \|$", GLOSSARY, re.MULTILINE)
    assert values
    assert {value for value in values if f"`{value}`" not in row} == set()


def test_every_word_of_the_glossary_is_defined_once() -> None:
    words = re.findall(r"^\| \*\*([^*]+)\*\* \|", GLOSSARY, re.MULTILINE)
    assert sorted(words) == sorted(set(words))


def test_the_guide_lists_every_exit_code() -> None:
    documented = {int(code) for code in re.findall(r"^\| (\d+) \|", GUIDE.read_text(encoding="utf-8"), re.MULTILINE)}
    in_the_code = {value for value in vars(exits).values() if isinstance(value, int)} - {exits.MAX_STDERR_LINES}
    assert documented == in_the_code
    assert {int(code) for code in re.findall(r"^  (\d+) ", EPILOG, re.MULTILINE)} <= documented


def test_the_guide_lists_every_event() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `([a-z.]+)` \| `[A-Z]\w+` \|", text, re.MULTILINE))
    assert documented == {each.type for each in get_args(events.Event)}


def test_the_guide_names_only_errors_that_exist() -> None:
    section = GUIDE.read_text(encoding="utf-8").partition("## When something goes wrong")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z]\w+)`", section))
    assert named
    assert {name for name in named if not hasattr(errors, name)} == set()
