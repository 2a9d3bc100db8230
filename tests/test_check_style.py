"""The check of names and docstrings that `make lint` runs."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
SCRIPT = ROOT / "scripts" / "check_style.py"


def load_script() -> Any:
    spec = importlib.util.spec_from_file_location("check_style", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


check_style = load_script()


def findings(folder: Path, text: str, name: str = "module.py") -> list[str]:
    """Return the findings in a file with this text, each as `line: message`."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return [f"{line}: {message}" for line, message in check_style.findings(path)]


@pytest.mark.parametrize(
    "code",
    [
        "kept = 1",
        "def held(): ...",
        "class Told: ...",
        "def f(asked): ...",
        "def f(*, _said=1): ...",
        "self.kept = 1",
        "import json as told",
        "try: ...\nexcept OSError as said: ...",
        "match x:\n    case [held, *kept]: ...",
        "for anew in (): ...",
    ],
)
def test_a_name_that_is_only_a_participle_is_found(code: str, tmp_path: Path) -> None:
    assert any("does not say what it holds" in finding for finding in findings(tmp_path, code))


@pytest.mark.parametrize("code", ["asked_at = 1", "kept_rows = []", "print(x.told)", "'told'", "# told"])
def test_a_name_that_says_more_or_that_is_only_read_is_not_found(code: str, tmp_path: Path) -> None:
    assert findings(tmp_path, code) == []


def test_a_module_that_is_called_by_a_participle_is_found(tmp_path: Path) -> None:
    assert findings(tmp_path, "", "told.py") == ["1: the module name 'told' does not say what it holds"]


@pytest.mark.parametrize("opening", ["What is kept.", "Who asks.", "Whether it is so.", "How it ends.", "As before."])
@pytest.mark.parametrize("where", ['"""{0}"""', 'class A:\n    """{0}"""', 'def f():\n    """{0}"""'])
def test_a_docstring_that_begins_with_a_pronoun_is_found(opening: str, where: str, tmp_path: Path) -> None:
    word = opening.split()[0]
    assert findings(tmp_path, where.format(opening)) == [
        f"1: the docstring begins with {word!r}: name the actor or the thing"
    ]


@pytest.mark.parametrize(
    "docstring",
    [
        "Returns the session.",
        "Waits until it is done.",
        "Prints a line.",
        "Raises.",
        "Frobnicates something that no list has.",
        "Runs the agent.",
        "Calls a tool.",
        "Writes it.",
        "Answers.",
    ],
)
@pytest.mark.parametrize("function", ["def f():", "async def f():", "class A:\n  def f(self):"])
def test_a_function_whose_docstring_begins_with_a_third_person_verb_is_found(
    docstring: str, function: str, tmp_path: Path
) -> None:
    verb = docstring.split()[0].rstrip(".")
    (finding,) = findings(tmp_path, f'{function}\n    """{docstring}"""')
    assert finding.endswith(f": the docstring begins with {verb!r}: use the imperative, or a noun")


@pytest.mark.parametrize(
    "docstring",
    [
        "Return the session.",
        "Compress the frames.",  # ends with an s, and is no third person
        "Guess the command.",
        "Bytes of the file.",
        "Lines that a terminal shows.",
        "Runs of a session, newest first.",
        "Calls that have no result yet.",
        "Writes of this process that wait to be committed.",
        "`returns` is a parameter.",
        "Session ids.",
        "",
    ],
)
def test_an_imperative_or_a_noun_is_not_found(docstring: str, tmp_path: Path) -> None:
    assert findings(tmp_path, f'def f():\n    """{docstring}"""') == []


def test_classes_and_modules_may_say_what_they_do(tmp_path: Path) -> None:
    assert findings(tmp_path, '"""Reads transcripts."""\nclass A:\n    """Waits for nothing."""') == []


def test_typescript_names_are_found_outside_of_comments_and_strings(tmp_path: Path) -> None:
    text = "// told\nconst a = 'told';\n/* kept */\nconst b = `said`;\nconst told = 1;\n"
    assert findings(tmp_path, text, "module.ts") == ["5: the name 'told' does not say what it holds"]


def test_the_program_prints_each_finding_and_its_exit_code_says_whether_there_is_one(tmp_path: Path) -> None:
    (tmp_path / "good.py").write_text('def f():\n    """Return."""\n')
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    bad = tmp_path / "bad.py"
    bad.write_text('def f():\n    """Returns."""\n\n\nkept = 1\n')
    done = subprocess.run([sys.executable, SCRIPT, tmp_path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    *found, total = done.stdout.splitlines()
    assert total == "2 findings"
    assert sorted(found) == [
        f"{bad}:1: the docstring begins with 'Returns': use the imperative, or a noun",
        f"{bad}:5: the name 'kept' does not say what it holds",
    ]


def test_make_lint_runs_it() -> None:
    lint = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\nlint:")[2].partition("\n\n")[0]
    assert "scripts/check_style.py" in lint
