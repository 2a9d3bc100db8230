"""The tables of commands that run other commands: complete, and read only when a command is judged."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib import resources

from dragoman.host.shell.programs import tables

TABLES = resources.files("dragoman.host.shell") / "programs.toml"


def test_the_tables_ship_with_the_package_and_describe_their_fields() -> None:
    text = TABLES.read_text(encoding="utf-8")
    schema = text[: text.index("\n[")]
    for table in tomllib.loads(text):
        assert f"[{table}" in schema, table


def test_a_program_is_described_once() -> None:
    programs = tables().programs
    groups = [frozenset(tables().wrappers), programs.runners, programs.shells, programs.other_shells]
    assert sum(map(len, groups)) == len(frozenset().union(*groups))


def test_an_option_is_written_as_on_a_command_line() -> None:
    for options in tables().options:
        kinds = (options.runs, options.folders, options.configs, options.lists, options.links, options.writes)
        for option in (option for kind in kinds for option in kind):
            assert option.startswith("-") or option == "+", option
            assert not option.endswith("="), option


def test_the_options_of_a_program_are_described_once() -> None:
    names = [name for options in tables().options for name in options.programs]
    assert len(names) == len(set(names))


def test_a_wrapper_lists_the_options_that_change_what_it_runs_among_its_options() -> None:
    for name, wrapper in tables().wrappers.items():
        assert wrapper.changes <= wrapper.flags | wrapper.values, name


def test_every_reason_is_one_of_the_table() -> None:
    assert {builtins.reason for builtins in tables().builtins} == set(tables().reasons)


def test_tables_are_read_only_when_a_command_is_judged() -> None:
    code = (
        "import dragoman.host.policy.policy, dragoman.host.shell.reader as reader\n"
        "from dragoman.host.shell.programs import tables\n"
        "assert tables.cache_info().misses == 0\n"
        "reader.read_script('sudo ls'); reader.read_script('sudo rm x')\n"
        "assert tables.cache_info().misses == 1\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
