"""The baseline for `open`: the same handshake by hand, on asyncio's own subprocess and streams."""

from __future__ import annotations

import time

STARTED = time.perf_counter()  # before anything is loaded: the cold figure includes the imports

import asyncio  # noqa: E402  as above
import json  # noqa: E402
from asyncio.subprocess import PIPE  # noqa: E402

LOADED = time.perf_counter()

from bench.clients.report import arguments, report  # noqa: E402  not part of what is measured


async def main() -> None:
    options = arguments()
    seconds: list[float] = []
    for _ in range(options.count):
        started = time.perf_counter()
        agent = await asyncio.create_subprocess_exec(*options.agent, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        assert agent.stdin
        assert agent.stdout
        for request_id, method, params in (
            (0, "initialize", {"protocolVersion": 1, "clientCapabilities": {}}),
            (1, "session/new", {"cwd": options.cwd, "mcpServers": []}),
        ):
            request = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
            agent.stdin.write(json.dumps(request).encode() + b"\n")
            if "result" not in json.loads(await agent.stdout.readline()):
                raise SystemExit(f"the agent refused {method}")
        seconds.append(time.perf_counter() - started)
        agent.stdin.close()
        await agent.wait()
    report(load=LOADED - STARTED, opens=seconds)


if __name__ == "__main__":
    asyncio.run(main())
