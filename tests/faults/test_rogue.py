"""The rogue agent itself: every behaviour is listed, documented and tested; it needs the standard library alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from dragoman.testing.rogue import command
from dragoman.testing.rogue.agent import behaviours, table

from .cases import CASES, ELSEWHERE

HERE = Path(__file__).parent
SOURCE = HERE.parents[1] / "src"
PAGE = HERE.parents[1] / "docs" / "rogue-agent.md"


def test_every_behaviour_has_a_test() -> None:
    tested = [case.behaviour for case in CASES] + [name for names in ELSEWHERE.values() for name in names]
    assert sorted(tested) == sorted(behaviours())


def test_the_tests_of_their_own_are_where_the_table_says() -> None:
    for file, names in ELSEWHERE.items():
        text = (HERE / file).read_text()
        for name in names:
            begins = name if not name.startswith("exits_while_idle_") else "exits_while_idle_"
            assert f'"{begins}' in text, (name, file)


def test_the_page_has_the_table() -> None:
    assert table() in PAGE.read_text(), "run `python -m dragoman.testing.rogue --table` and put it into the page"


def test_the_list_names_every_behaviour_with_what_it_does() -> None:
    done = subprocess.run([*command("x")[:-1], "--list"], capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in done.stdout.splitlines()] == list(behaviours())


def test_a_name_that_is_none_is_an_error_that_says_so() -> None:
    done = subprocess.run(command("nice"), capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no behaviour 'nice'" in done.stderr


def test_it_needs_nothing_but_the_standard_library() -> None:
    program = (
        "import sys; from dragoman.testing.rogue.agent import behaviours; behaviours();"
        "loaded = {name.partition('.')[0] for name in sys.modules};"
        "print(loaded - set(sys.stdlib_module_names) - {'dragoman', '__main__'})"
    )
    done = subprocess.run([sys.executable, "-S", "-c", program], capture_output=True, text=True, check=True, cwd=SOURCE)
    assert done.stdout.strip() == "set()"
