"""Which servers run on a home folder, how their links read, and how they look as a QR code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
import segno

from dragoman.bridge.listen import ServerRegistry, qr_lines, this_server


def test_a_server_is_found_until_it_is_forgotten(tmp_path: Path) -> None:
    server = this_server(tls=False, host="127.0.0.1", port=8421, addresses=())
    assert ServerRegistry(tmp_path).running() == ()
    ServerRegistry(tmp_path).add(server)
    ServerRegistry(tmp_path).add(server)
    assert ServerRegistry(tmp_path).running() == (server,)
    ServerRegistry(tmp_path).remove(server)
    assert ServerRegistry(tmp_path).running() == ()


def test_one_that_was_killed_is_not_found_though_its_number_is_used_again(tmp_path: Path) -> None:
    server = this_server(tls=False, host="127.0.0.1", port=8421, addresses=())
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    ServerRegistry(tmp_path).add(msgspec.structs.replace(server, pid=ended.pid))
    ServerRegistry(tmp_path).add(msgspec.structs.replace(server, started="1"))
    assert ServerRegistry(tmp_path).running() == ()


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "https://127.0.0.1:8421"),
        ("0.0.0.0", "https://127.0.0.1:8421"),
        ("::", "https://127.0.0.1:8421"),
        ("::1", "https://[::1]:8421"),
        ("desk.local", "https://desk.local:8421"),
    ],
)
def test_the_code_is_behind_the_hash(host: str, url: str) -> None:
    server = this_server(tls=True, host=host, port=8421, addresses=())
    assert server.link("abc") == f"{url}/pair#abc"
    assert server.link("abc", "2001:db8::1") == "https://[2001:db8::1]:8421/pair#abc"


def test_a_qr_code_is_drawn_as_the_library_makes_it() -> None:
    text = "https://192.0.2.7:8421/pair#aBRzCfmnqs-nTLJXFan7Ng"
    lines = qr_lines(text)
    assert lines is not None
    dark = {"█": (0, 0), "▀": (0, 1), "▄": (1, 0), " ": (1, 1)}
    rows = [[dark[one][half] for one in line] for line in lines for half in (0, 1)]
    expected = [list(row) for row in segno.make(text, error="l", micro=False).matrix_iter(border=2)]
    assert rows[: len(expected)] == expected
    assert len({len(line) for line in lines}) == 1
