"""Attacks from inside a sandbox: each succeeds outside, and none inside but those that the report lists."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import msgspec
import pytest

from attempts import Attempts
from dragoman.workspace.sandbox import Sandbox
from workspace.sandbox_support import Target, attack_outside, machine_with, outcome_of, policy, run_in

pytestmark = [pytest.mark.timeout(300)]

# Attacks that Landlock does not stop, and the words of the report that say so.
LANDLOCK_GAPS = {
    "change_the_mode_of_a_file_outside": "chmod",
    "change_the_times_of_a_file_outside": "times",
    "see_the_size_of_a_file_outside": "stat",
    "read_the_command_line_of_a_process": "command lines",
}
# The same of Landlock before version 6, and of bubblewrap beside it, with the network on.
OLD_LANDLOCK_GAPS = dict.fromkeys(("signal_a_process", "signal_a_process_by_a_descriptor"), "signals")
OLD_BUBBLEWRAP_GAPS = dict.fromkeys(
    ("connect_to_an_abstract_socket", "send_to_an_abstract_socket_of_datagrams"), "abstract sockets"
)
# Attacks on git, which only mounts stop: without namespaces there are none.
GIT_GAPS = {
    "write_a_hook_of_git",
    "change_the_settings_of_git",
    "replace_the_settings_of_git",
    "delete_the_settings_of_git",
    "link_the_settings_of_git",
    "replace_the_hooks_of_git",
    "write_attributes_of_git",
    "replace_the_folder_of_git",
    "exchange_the_folder_of_git",
    "replace_the_folder_of_submodules",
    "change_the_settings_of_a_submodule",
    "unmount_the_settings_of_git",
    "open_the_settings_of_git_through_the_root_of_a_process",
    "replace_the_link_of_a_work_tree",
    "lead_a_work_tree_elsewhere",
}
# The rows of the table for each mechanism.
AREAS = {
    "bubblewrap": pytest.mark.attempts("sandbox, bubblewrap"),
    "landlock": pytest.mark.attempts("sandbox, landlock"),
    "landlock without namespaces": pytest.mark.attempts("sandbox, landlock without namespaces"),
}
# With the network on, these are no attacks.
NETWORK = {
    "connect_by_tcp",
    "connect_by_tcp_over_ipv6",
    "connect_by_fast_open",
    "connect_by_multipath_tcp",
    "send_by_udp",
    "listen_for_others",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with contextlib.ExitStack() as stack:
        yield Target(tmp_path_factory.mktemp("target"), stack)


@pytest.fixture(scope="module")
def outside(target: Target) -> dict[str, str]:
    """The outcome of each attack without a sandbox."""
    return attack_outside(target)


def test_each_attack_succeeds_without_a_sandbox(outside: dict[str, str]) -> None:
    assert {name: text for name, text in outside.items() if text.startswith("failed")} == {}
    assert sum(text == "succeeded" for text in outside.values()) >= 30


@pytest.mark.parametrize("network", [True, False], ids=["network on", "network off"])
@pytest.mark.parametrize("mechanism", [pytest.param(name, marks=marker) for name, marker in AREAS.items()])
async def test_no_attack_succeeds_but_those_that_the_report_lists(
    mechanism: str, network: bool, target: Target, outside: dict[str, str], attempts: Attempts
) -> None:
    machine = machine_with(mechanism)
    if not network and mechanism == "landlock without namespaces" and machine.landlock_version < 4:
        pytest.skip("this Landlock cannot turn the network off")
    target.reset()
    wanted = policy(target.workspace, mechanism, target.home, network=network)
    wanted = msgspec.structs.replace(wanted, folders=(target.workspace, target.tree))
    sandbox = await Sandbox.start(wanted, target.env, machine=machine)
    try:
        with target.answering():
            code, out, err = await run_in(sandbox, target.command(), target.env, target.workspace)
    finally:
        await sandbox.close()
    assert code == 0, err
    inside = outcome_of(out)
    if not (target.home / "planted").exists():
        inside["write_in_home"] = "failed: it was written to the sandbox's own temporary folder, which has its name"
    tried = {name for name, text in outside.items() if text == "succeeded"}
    gaps = {"lead_git_to_another_repository": "commondir", **(LANDLOCK_GAPS if "landlock" in mechanism else {})}
    if machine.landlock_version < 6:
        gaps |= OLD_LANDLOCK_GAPS if "landlock" in mechanism else OLD_BUBBLEWRAP_GAPS if network else {}
    if mechanism == "landlock without namespaces":
        gaps |= dict.fromkeys((*GIT_GAPS, "lead_git_to_another_repository"), "hooks and settings of git")
    expected = {*gaps, *(NETWORK if network else ())} & tried
    succeeded = {name for name in tried if inside[name] == "succeeded"}
    assert succeeded - expected == set(), {name: inside[name] for name in succeeded - expected}
    listed = " ".join(sandbox.report().not_confined)
    assert [word for word in gaps.values() if word not in listed] == []
    attempts.add(len(tried - (NETWORK if network else set())))
    for name in sorted(succeeded & set(gaps)):
        attempts.add_inherent(
            name.replace("_", " "), "A kernel cannot stop it by this mechanism, and the report says so."
        )
