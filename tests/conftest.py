"""Settings for all tests."""

import atexit
import os
import shutil
import signal
import tempfile
from typing import Any

import pytest
from hypothesis import settings

from attempts import AttemptsPlugin
from attempts import attempts as attempts  # the fixture, for all tests

# A program that is started in the background of a script has interrupts ignored, and so have its children. Tests
# that interrupt a process would wait for ever; a handler here gives the children the default again.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# Sessions are stored in the journal of the home folder: that of the person who runs the tests must stay untouched.
if "DRAGOMAN_HOME" not in os.environ:  # worker processes inherit it
    os.environ["DRAGOMAN_HOME"] = tempfile.mkdtemp(prefix="dragoman-tests-")
    atexit.register(shutil.rmtree, os.environ["DRAGOMAN_HOME"], ignore_errors=True)

# The demo agent speaks at the pace of a reader, unless a test sets its own.
os.environ.setdefault("DRAGOMAN_DEMO_PACE", "0")

# Checkpoints cost each session of the tests some processes of git. The tests of checkpoints switch them on.
os.environ.setdefault("DRAGOMAN_CHECKPOINTS", "off")

# No example has a time limit: on a busy machine any of them can be slow, and time is no property of the code.
# Sixty examples each: `make test` has five minutes for some eight thousand tests. Use more to hunt a defect.
settings.register_profile("dragoman", deadline=None, max_examples=60)
settings.load_profile("dragoman")


class AgentStartRetries:
    """Prints how often the start of a real agent was retried (tests/agents/conftest.py), in all worker processes."""

    def __init__(self) -> None:
        self._retries: list[str] | None = None  # None: no test of a real agent was collected

    @pytest.hookimpl(optionalhook=True)  # without pytest-xdist there are no nodes
    def pytest_testnodedown(self, node: Any) -> None:
        self._add(getattr(node, "workeroutput", {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        self._add(config.__dict__)
        if self._retries is None:
            return
        terminalreporter.write_line(f"starts of real agents that were retried: {len(self._retries)}")
        for retry in self._retries:
            terminalreporter.write_line(f"  {retry}")

    def _add(self, output: dict[str, Any]) -> None:
        if "agent_start_retries" in output:
            self._retries = [*(self._retries or []), *output["agent_start_retries"]]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(AttemptsPlugin(os.environ.get("DRAGOMAN_TORTURE")), "counts of attempts")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(AgentStartRetries(), "retried starts of real agents")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Try bubblewrap with the slow tests where the system has none: they install an agent that brings one with it."""
    if shutil.which("bwrap") is not None:
        return
    for item in items:
        params = getattr(getattr(item, "callspec", None), "params", {})
        if params.get("mechanism") == "bubblewrap":
            item.add_marker(pytest.mark.slow)
