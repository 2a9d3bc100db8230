"""The tables of commands that run other commands: complete, and read only when a command is judged."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import resources

import pytest

from dragoman.host.shell import indirect_execution, wrappers

DATA = resources.files("dragoman.host.shell") / "data"


@pytest.mark.parametrize("name", ["wrappers.toml", "indirect_execution.toml"])
def test_a_table_ships_with_the_package_and_describes_its_fields(name: str) -> None:
    text = (DATA / name).read_text(encoding="utf-8")
    schema = text[: text.index("\n[")]
    for table in tomllib.loads(text):
        assert f"[{table}" in schema, table


def test_a_program_is_described_once() -> None:
    table = wrappers._table()
    groups = [frozenset(table.wrappers), table.programs.runners, table.programs.shells, table.programs.other_shells]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))


def test_every_reason_is_one_of_the_table() -> None:
    table = indirect_execution._table()
    assert {builtins.reason for builtins in table.builtins} == set(table.reasons)


def test_tables_are_read_only_when_a_command_is_judged() -> None:
    code = (
        "import dragoman.host.policy.policy, dragoman.host.shell.reader as reader\n"
        "from dragoman.host.shell import indirect_execution, wrappers\n"
        "tables = (wrappers._table, indirect_execution._table)\n"
        "assert [table.cache_info().misses for table in tables] == [0, 0]\n"
        "reader.read_script('sudo ls'); reader.read_script('sudo rm x')\n"
        "assert [table.cache_info().misses for table in tables] == [1, 1]\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
