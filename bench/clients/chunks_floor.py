"""The floor of `chunks`: read the pipe and split it into lines. No JSON, no types, no events, no loop."""

from __future__ import annotations

import json
import os
import subprocess
import time

from bench.clients.report import WARM_UP_CHUNKS, arguments, report

# As large as a pipe is by default on Linux: a read never gets more.
READ_SIZE = 65_536


def main() -> None:
    options = arguments()
    with subprocess.Popen(options.agent, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0) as agent:
        assert agent.stdin
        assert agent.stdout
        stdin, stdout = agent.stdin.fileno(), agent.stdout.fileno()

        def ask(request_id: int, method: str, params: object) -> list[bytes]:
            """Yield every line up to and including the answer."""
            request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            os.write(stdin, json.dumps(request).encode() + b"\n")
            marker = b'{"jsonrpc": "2.0", "id": %d,' % request_id
            lines: list[bytes] = []
            rest = b""
            while not (lines and lines[-1].startswith(marker)):
                data = os.read(stdout, READ_SIZE)
                if not data:
                    raise SystemExit("the agent ended before it had answered")
                complete = (rest + data).split(b"\n")
                rest = complete.pop()
                lines += complete
            return lines

        ask(1, "initialize", {"protocolVersion": 1})
        (opened,) = ask(2, "session/new", {"cwd": options.cwd, "mcpServers": []})
        session_id = json.loads(opened)["result"]["sessionId"]

        def prompt(request_id: int, count: int) -> int:
            text = {"type": "text", "text": str(count)}
            return len(ask(request_id, "session/prompt", {"sessionId": session_id, "prompt": [text]})) - 1

        prompt(3, WARM_UP_CHUNKS)
        started = time.perf_counter()
        seen = prompt(4, options.count)
        seconds = time.perf_counter() - started
        if seen != options.count:
            raise SystemExit(f"saw {seen} lines; the agent sent {options.count}")
        report(seconds=seconds)
        agent.stdin.close()


if __name__ == "__main__":
    main()
