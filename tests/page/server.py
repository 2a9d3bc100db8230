"""`Server`: `dragoman serve` as a process, with a home and a workspace of its own."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "src/dragoman/bridge/page/index.html"
TIMEOUT_S = 30.0  # to start, to stop, or to print a link


class Server:
    """Started again, it is the same server: the same port, journal and tokens.

    `python` is the one that it is installed in; `path`, if given, the PATH that it gets.
    """

    def __init__(self, folder: Path, *, pace: float = 0.0, python: str = sys.executable, path: str = "") -> None:
        self.home = folder / "home"
        self.workspace = folder / "workspace"
        self.workspace.mkdir()
        (self.workspace / "README").write_text("Read me.\n")
        self.port = _free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.pace = pace
        self._python = python
        self._path = path or os.environ.get("PATH", "")
        self._process: subprocess.Popen[str] | None = None
        self._reader: threading.Thread | None = None

    def start(self) -> str:
        """Start it. Return a link, once it can be opened."""
        command = [self._python, "-m", "dragoman", "serve", "--no-open", "--port", str(self.port)]
        environment = {
            **os.environ,
            "PATH": self._path,
            "HOME": str(self.workspace.parent),
            "DRAGOMAN_HOME": str(self.home),
            "DRAGOMAN_DEMO_PACE": str(self.pace),
        }
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment, cwd=self.workspace
        )
        try:
            self._wait(self._process)
            return self.link()
        except BaseException:
            self.stop(signal.SIGKILL)
            raise

    def _wait(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        too_late = threading.Timer(TIMEOUT_S, process.kill)
        too_late.start()
        output = []
        try:
            for line in process.stdout:
                output.append(line)
                if line.startswith("For a link:"):
                    # What it says later must not fill the pipe.
                    self._reader = threading.Thread(target=process.stdout.read, daemon=True)
                    self._reader.start()
                    return
        finally:
            too_late.cancel()
        raise AssertionError(f"the server did not start: {''.join(output)}")

    def link(self) -> str:
        """A new link to the server that runs."""
        command = [self._python, "-m", "dragoman", "token", "link"]
        environment = {**os.environ, "DRAGOMAN_HOME": str(self.home)}
        result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        found = re.search(r"http://\S+/pair#\S+", result.stdout)
        assert found is not None, result.stdout
        return found.group()

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        if self._process is None:
            return
        process, self._process = self._process, None
        process.send_signal(how)
        try:
            process.wait(TIMEOUT_S)
        finally:
            process.kill()
            process.wait()
            if self._reader is not None:
                self._reader.join(TIMEOUT_S)
            assert process.stdout is not None
            process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
