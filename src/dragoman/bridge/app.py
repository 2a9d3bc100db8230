"""`application`: the bridge as an ASGI application. Everything that has an address is put together here."""

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

from dragoman.bridge.attempts import Attempts
from dragoman.bridge.auth import Auth
from dragoman.bridge.caller import Caller
from dragoman.bridge.door import Door
from dragoman.bridge.http import Api
from dragoman.bridge.metrics import Metrics
from dragoman.bridge.openapi import description
from dragoman.bridge.origin import Names
from dragoman.bridge.refusal import Refusal, refusal_of
from dragoman.bridge.reply import JSON, refused
from dragoman.bridge.seam import Steered
from dragoman.bridge.static import Page, listed
from dragoman.bridge.tokens import Tokens

HERE: Final = Path(__file__).parent
PAGE: Final = HERE / "page"  # built from web/
PAGES: Final = HERE / "pages"  # a few of our own: pairing, the API's documents

Socket = Callable[[WebSocket, Caller], Awaitable[None]]


def application(
    bridge: Steered,
    socket: Socket,
    *,
    tokens: Tokens,
    names: Names,
    metrics: Metrics,
    ending: asyncio.Event,
    port: int,
    page: Path = PAGE,
) -> ASGIApp:
    auth = Auth(tokens, Attempts(), port)

    async def open_socket(websocket: WebSocket) -> None:
        try:
            caller = await auth.caller(websocket)
        except Refusal as refusal:
            await websocket.send_denial_response(refused(refusal))
            return
        await socket(websocket, caller)

    routes = [
        *Api(bridge, auth, metrics, ending).routes(),
        Route("/v1/openapi.json", _describe, methods=["GET"]),
        WebSocketRoute("/v1/socket", open_socket),
    ]
    inside = Starlette(routes=routes, exception_handlers={HTTPException: _http_problem, Exception: _defect})
    inside.router.redirect_slashes = False
    inside.router.default = _files(page, inside.router.not_found)
    return Door(inside, names, metrics)


def _files(page: Path, nothing: ASGIApp) -> ASGIApp:
    """What is at no other address. Those within the page (`/sessions/…`) are the page itself, which knows what they
    mean."""
    ours = listed(PAGES, "/docs/")
    ours |= {"/pair": ours["/docs/pair.html"], "/docs": ours["/docs/index.html"]}
    built = Page(page)

    def answer(request: Request) -> Response:
        path = request.url.path
        index = "/index.html" if path == "/" or _is_page(request) else path
        found = ours.get(path) or built.get(path) or built.get(index)
        if path == "/" and found is None:
            return RedirectResponse("/docs", 302)
        if found is None:
            raise HTTPException(404)
        if request.method not in ("GET", "HEAD"):
            raise HTTPException(405, headers={"allow": "GET, HEAD"})
        return found.response(request.headers)

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        response = nothing if scope["type"] == "websocket" else answer(Request(scope))
        await response(scope, receive, send)

    return serve


async def _describe(_: Request) -> Response:
    return Response(description(), media_type=JSON)


def _is_page(request: Request) -> bool:
    path = request.url.path
    return (
        "text/html" in request.headers.get("accept", "")
        and not path.startswith(("/v1/", "/docs/", "/assets/"))
        and "." not in path.rpartition("/")[2]
    )


async def _http_problem(request: Request, problem: Exception) -> Response:
    """Those that the router raises."""
    assert isinstance(problem, HTTPException)
    if problem.status_code == 405:
        refusal = Refusal(
            "unsupported", f"{request.url.path} takes no {request.method}", guidance="GET /v1/openapi.json"
        )
    else:
        refusal = Refusal("not_found", f"there is nothing at {request.url.path}", guidance="GET /v1/openapi.json")
    response = refused(refusal, problem.status_code)
    response.headers.update(problem.headers or {})
    return response


async def _defect(_: Request, problem: Exception) -> Response:
    return refused(refusal_of(problem))
