"""The tool server's stdio end: a program that an agent starts, and that joins it to the server it came from.

Run as `python -I -S _shim_main.py PORT`, with the token in the environment. What the agent writes goes to the server
as it is, and the other way round, until either of them ends. It runs on its own, so it imports nothing but the
standard library, and little of that.
"""

from __future__ import annotations

import os
import socket
import sys
import threading

TOKEN = "DRAGOMAN_TOOLS_TOKEN"  # noqa: S105 - the name of the variable
"""The environment variable with the token: a command line is seen by every user of the machine."""

GREETING = b"dragoman-tools "
"""Before the token, in the first line."""

CONNECT_LIMIT = 10.0
"""Seconds to reach the server, which is on this machine."""

GRACE = 2.0
"""Seconds for answers that are under way when the agent says no more."""

CHUNK = 65536


def main() -> int:
    token = os.environ.pop(TOKEN, "")
    try:
        server = socket.create_connection(("127.0.0.1", int(sys.argv[1])), CONNECT_LIMIT)
    except OSError as problem:
        print(f"dragoman's tool server is not there any more: {problem}", file=sys.stderr)
        return 1
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small messages would wait 40 ms for the next one
    server.sendall(GREETING + token.encode() + b"\n")
    threading.Thread(target=pass_on, args=(server,), daemon=True).start()
    try:
        while data := server.recv(CHUNK):
            write_all(1, data)
    except OSError:
        pass  # the agent reads no more, the server went away, or the grace is over
    return 0


def pass_on(server: socket.socket) -> None:
    """From the agent to the server. Its end is the agent's: it may still want the last answers, but not for long."""
    try:
        while data := os.read(0, CHUNK):
            server.sendall(data)
        server.settimeout(GRACE)
        server.shutdown(socket.SHUT_WR)
        timer = threading.Timer(GRACE, os._exit, (0,))  # a `recv` under way does not hear of the new limit
        timer.daemon = True
        timer.start()
    except OSError:
        os._exit(0)


def write_all(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


if __name__ == "__main__":
    # Not through the interpreter's end: it would wait for the thread that waits for the agent.
    code = main()
    sys.stderr.flush()
    os._exit(code)
