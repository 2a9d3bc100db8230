"""`application`: the bridge as an ASGI application, with every URL of the server."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocket

from dragoman.bridge.auth import Auth, Caller, FailedAttempts
from dragoman.bridge.bridge import Bridge
from dragoman.bridge.http import Api
from dragoman.bridge.openapi import description
from dragoman.bridge.origin import HostNames
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.responses import JSON, refusal_response
from dragoman.bridge.security import SecurityMiddleware
from dragoman.bridge.socket import serve_socket
from dragoman.bridge.static import BuiltPage, files_by_url

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "page"  # built from web/
PAGES: Final = HERE / "pages"  # pages that need no build: pairing, API documentation

SocketHandler = Callable[[WebSocket, Bridge, Caller], Awaitable[None]]


def application(
    bridge: Bridge,
    *,
    host_names: HostNames,
    stopping: asyncio.Event,
    port: int,
    page: Path = PAGE,
    handle_socket: SocketHandler = serve_socket,
) -> ASGIApp:
    """The ASGI application. `stopping` is set when the server is about to stop; `page` is the built page's folder."""
    auth = Auth(bridge.tokens, FailedAttempts(), port)

    async def open_socket(websocket: WebSocket) -> None:
        try:
            caller = await auth.caller(websocket)
        except Refusal as refusal:
            await websocket.send_denial_response(refusal_response(refusal))
            return
        await handle_socket(websocket, bridge, caller)

    routes = [
        *Api(bridge, auth, stopping).routes(),
        Route("/v1/openapi.json", _describe, methods=["GET"]),
        WebSocketRoute("/v1/socket", open_socket),
    ]
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http_error, Exception: _internal_error})
    app.router.redirect_slashes = False
    app.router.default = _files(page, app.router.not_found)
    return SecurityMiddleware(app, host_names, bridge.metrics)


def _files(page: Path, not_found: ASGIApp) -> ASGIApp:
    """Serve files at all URLs without a route. URLs within the page (`/sessions/…`) serve the page itself."""
    own_pages = files_by_url(PAGES, "/docs/")
    own_pages |= {"/pair": own_pages["/docs/pair.html"], "/docs": own_pages["/docs/index.html"]}
    built = BuiltPage(page)

    def answer(request: Request) -> Response:
        path = request.url.path
        index = "/index.html" if path == "/" or _is_page_url(request) else path
        file = own_pages.get(path) or built.get(path) or built.get(index)
        if path == "/" and file is None:
            return RedirectResponse("/docs", 302)
        if file is None:
            raise HTTPException(404)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        return file.response(request.headers)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        response = not_found if scope["type"] == "websocket" else answer(Request(scope))
        await response(scope, receive, send)

    return serve


async def _describe(_: Request) -> Response:
    return Response(description(), media_type=JSON)


def _is_page_url(request: Request) -> bool:
    path = request.url.path
    return (
        "text/html" in request.headers.get("accept", "")
        and not path.startswith(("/v1/", "/docs/", "/assets/"))
        and "." not in path.rpartition("/")[2]
    )


async def _http_error(request: Request, error: Exception) -> Response:
    """Answer an error of the router."""
    assert isinstance(error, HTTPException)
    if error.status_code == 405:
        refusal = Refusal(
            "unsupported", f"{request.url.path} does not support {request.method}", guidance="GET /v1/openapi.json"
        )
    else:
        refusal = Refusal("not_found", f"there is nothing at {request.url.path}", guidance="GET /v1/openapi.json")
    response = refusal_response(refusal, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def _internal_error(_: Request, error: Exception) -> Response:
    return refusal_response(refusal_of(error))
