"""An MCP server with one tool, `echo_note`, of the standard library alone: over stdio as a program, over HTTP in a
thread.

    python notes_server.py [PIPE]     PIPE is held open for as long as it lives
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

TOOL = {
    "name": "echo_note",
    "description": "Says a note again.",
    "inputSchema": {"type": "object", "properties": {"note": {"type": "string"}}, "required": ["note"]},
}


def answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to a request; None for notifications and answers."""
    if "id" not in message or "method" not in message:
        return None
    params = message.get("params") or {}
    result: dict[str, Any]
    match message["method"]:
        case "initialize":
            result = {
                "protocolVersion": params.get("protocolVersion", "2025-06-18"),
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "notes", "version": "1"},
            }
        case "ping":
            result = {}
        case "tools/list":
            result = {"tools": [TOOL]}
        case "tools/call":
            note = params.get("arguments", {}).get("note")
            result = {"content": [{"type": "text", "text": f"noted: {note}"}]}
        case method:
            error = {"code": -32601, "message": f"there is no {method}"}
            return {"jsonrpc": "2.0", "id": message["id"], "error": error}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


class _Handler(BaseHTTPRequestHandler):
    """Streamable HTTP at its simplest: every answer is JSON, and there is no stream to listen to."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        found = answer(message)
        self._send(202 if found is None else 200, b"" if found is None else json.dumps(found).encode())

    def do_GET(self) -> None:
        self._send(405)

    def do_DELETE(self) -> None:
        self._send(200)

    def _send(self, status: int, body: bytes = b"") -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def over_http() -> Iterator[str]:
    """Serve on loopback; yield the address."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/mcp"
        finally:
            server.shutdown()
            thread.join()


def main() -> None:
    with Path(sys.argv[1] if sys.argv[1:] else os.devnull).open("w"):
        for line in sys.stdin:
            if line.strip() and (found := answer(json.loads(line))) is not None:
                print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
