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
"""The environment variable with the token: every user of the machine can see a command line."""

GREETING = b"dragoman-tools "
"""Before the token, in the first line."""

CONNECT_TIMEOUT_S = 10.0  # the server is on this machine

LAST_ANSWERS_S = 2.0  # for answers that are under way when the agent closes its side

CHUNK_BYTES = 65536


def main() -> int:
    token = os.environ.pop(TOKEN, "")
    try:
        server = socket.create_connection(("127.0.0.1", int(sys.argv[1])), CONNECT_TIMEOUT_S)
    except OSError as error:
        print(f"the tool server of Dragoman cannot be reached: {error}", file=sys.stderr)
        return 1
    server.settimeout(None)
    server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # small messages would wait 40 ms for the next one
    server.sendall(GREETING + token.encode() + b"\n")
    threading.Thread(target=pass_on, args=(server,), daemon=True).start()
    try:
        while data := server.recv(CHUNK_BYTES):
            write_all(1, data)
    except OSError:
        pass  # the agent reads no more, the server went away, or the grace is over
    return 0


def pass_on(server: socket.socket) -> None:
    """Pass on from the agent to the server. After the agent's end, wait a short time for the last answers."""
    try:
        while data := os.read(0, CHUNK_BYTES):
            server.sendall(data)
        server.settimeout(LAST_ANSWERS_S)
        server.shutdown(socket.SHUT_WR)
        timer = threading.Timer(LAST_ANSWERS_S, os._exit, (0,))  # a `recv` under way does not hear of the new limit
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
