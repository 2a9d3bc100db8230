"""A real server on a port of its own, in this process: with a bridge, a journal and agents."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

from dragoman.bridge.bridge import Bridge
from dragoman.bridge.security import host_names
from dragoman.bridge.server import application, open_port, serving
from dragoman.bridge.tokens import Tokens
from dragoman.config import load, make_home
from dragoman.protocol.messages import Scope
from dragoman.remote.client import Client


class RealServer:
    """The server, which can be stopped and started again on the same port; and ways to reach it."""

    def __init__(self, home: Path, tls: ssl.SSLContext | None = None) -> None:
        self.home = home
        self.tls = tls
        # In and below the folder beside the home, clients with the scope `prompt` may open sessions.
        settings = make_home(home) / "config.toml"
        more = settings.read_text() if settings.exists() else ""
        settings.write_text(f'folders = ["{home.parent}"]\n{more}')
        self.tokens = Tokens(home)
        self.port = 0
        self._stack = AsyncExitStack()

    @property
    def url(self) -> str:
        return f"{'http' if self.tls is None else 'https'}://127.0.0.1:{self.port}"

    def token(self, scope: Scope = "prompt") -> str:
        return self.tokens.create("a program", scope)[0]

    def client(self, scope: Scope = "prompt", **settings: Any) -> Client:
        return Client(self.url, self.token(scope), **settings)

    async def start(self) -> None:
        stopping = asyncio.Event()
        listener = self._stack.enter_context(open_port("127.0.0.1", self.port))
        self.port = listener.getsockname()[1]
        bridge = await Bridge(load(self.home), self.tokens).start()
        self._stack.push_async_callback(bridge.close)
        names = host_names([], any_address=False)
        app = application(bridge, host_names=names, stopping=stopping, port=self.port, page=self.home / "no page")
        await self._stack.enter_async_context(serving(app, listener, self.tls))
        self._stack.callback(stopping.set)

    async def stop(self) -> None:
        await self._stack.aclose()


@asynccontextmanager
async def real_server(home: Path, tls: ssl.SSLContext | None = None) -> AsyncIterator[RealServer]:
    server = RealServer(home, tls)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
