"""`chunks` with the official Python SDK's client: its spawn helper, a handler that keeps each text."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import acp

from bench.clients.report import WARM_UP_CHUNKS, arguments, check_order, report


class Client(acp.Client):  # type: ignore[misc]  # the SDK is installed in the peer's environment only: Any to us
    """A client that keeps each text and notices when all have come: the SDK handles each update in its own task."""

    def __init__(self) -> None:
        self.expect(0)

    def expect(self, count: int) -> None:
        self.texts: list[str] = []
        self.count = count
        self.complete = asyncio.Event()

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        texts = self.texts
        texts.append(update.content.text)
        if len(texts) == self.count:
            self.complete.set()


async def main() -> None:
    options = arguments()
    client = Client()
    async with acp.spawn_agent_process(client, *options.agent) as (connection, _process):
        await connection.initialize(protocol_version=acp.PROTOCOL_VERSION)
        session = await connection.new_session(cwd=options.cwd, mcp_servers=[])

        async def prompt(count: int) -> float:
            client.expect(count)
            started = time.perf_counter()
            await connection.prompt(session_id=session.session_id, prompt=[acp.text_block(str(count))])
            await client.complete.wait()
            return time.perf_counter() - started

        await prompt(WARM_UP_CHUNKS)
        seconds = await prompt(options.count)
        report(seconds=seconds, late=check_order(client.texts, options.count))


if __name__ == "__main__":
    asyncio.run(main())
