"""`dragoman serve` on a terminal: the output, Enter and Ctrl-C."""

from __future__ import annotations

import fcntl
import re
import signal
import struct
import termios
import threading

from cli.conftest import Cli, On


def test_enter_gives_a_new_link_and_ctrl_c_ends_it(on_terminal: On) -> None:
    terminal = on_terminal("serve", "--port", "0", "--no-open")
    first = terminal.until(b"Ctrl-C to stop.\r\n").decode()
    terminal.type(b"\n")
    second = terminal.until(b"/pair#").decode() + terminal.until(b"\r\n").decode()
    terminal.process.send_signal(signal.SIGINT)
    assert terminal.rest().endswith("Stopped.\n")
    assert terminal.code() == 0
    codes = re.findall(r"/pair#(\S+)", first + second)
    assert len(codes) == 2
    assert codes[0] != codes[1]
    assert "█" not in first  # a phone could not reach it


def test_on_the_network_a_phone_gets_a_qr_code(on_terminal: On) -> None:
    terminal = on_terminal("serve", "--host", "0.0.0.0", "--port", "0", "--no-open")
    fcntl.ioctl(terminal.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    output = terminal.until(b"Ctrl-C to stop.\r\n").decode()
    assert "fingerprint" in output
    if "your phone" in output:  # a machine without a network has no address to show
        assert output.count("█") > 100
    terminal.process.send_signal(signal.SIGTERM)
    assert terminal.code() == 0


def test_running_servers_are_listed_and_stopped(cli: Cli, on_terminal: On) -> None:
    done = cli("serve", "--status")
    assert (done.code, done.out) == (1, "No server is running. Start one: dragoman serve\n")
    terminal = on_terminal("serve", "--port", "0", "--no-open")
    [url] = re.findall(r"running at (\S+)", terminal.until(b"Ctrl-C to stop.\r\n").decode())
    pid = terminal.process.pid
    done = cli("serve", "--status")
    assert (done.code, done.out) == (0, f"Running as process {pid}: {url}\n")
    ended = threading.Thread(target=terminal.process.wait)  # as its shell would: a process that is not waited for stays
    ended.start()
    done = cli("serve", "--stop")
    ended.join()
    assert (done.code, done.out) == (0, f"Stopped process {pid}: {url}\n")
    assert terminal.code() == 0
    assert cli("serve", "--stop").out == "No server is running.\n"
