"""HTTP responses: JSON results, errors, static files, and event streams, which end when the client disconnects or the
server stops.

Static files are the built page and a few pages of our own. They are listed by walking the folder once: a request names
an entry of that list and never a path, so that no path can lead out of the folder. A page that is built while the
server runs is read again.
"""

from __future__ import annotations

import asyncio
import gzip
import hashlib
import math
import mimetypes
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, Final

import msgspec
from starlette.datastructures import Headers
from starlette.responses import Response, StreamingResponse

from dragoman.bridge.broadcast import StreamMessage
from dragoman.bridge.refusal import Refusal
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.protocol.models import Model
from dragoman.protocol.results import HttpError, RunResult

JSON: Final = "application/json"

# Characters of a text that are encoded at once.
MAX_ENCODED_CHARS: Final = 256 * 1024

# Silence after which a comment is sent: proxies close connections that are silent for a minute.
KEEP_ALIVE_S: Final = 15.0
KEEP_ALIVE: Final = b": still here\n\n"


def json_response(content: Model | bytes, status: int = 200) -> Response:
    """A response with a result, or with JSON that is encoded already."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(data, status, {"cache-control": "no-store"}, JSON)


def run_response(result: RunResult, status: int) -> Response:
    """A response with the result of a run. A long text is encoded in parts, so that other clients get their turn."""
    if len(result.text) <= MAX_ENCODED_CHARS:
        return json_response(result, status)

    async def parts() -> AsyncIterator[bytes]:
        scheduler = scheduler_of_loop()
        for part in encode_in_parts(result):
            yield part
            await asyncio.sleep(0)
            await scheduler.wait_for_commits()

    return StreamingResponse(parts(), status, {"cache-control": "no-store"}, JSON)


def encode_in_parts(result: RunResult) -> Iterator[bytes]:
    """Encode the result of a run, with up to `MAX_ENCODED_CHARS` characters of its text in each part."""
    begin, _, end = msgspec.json.encode(msgspec.structs.replace(result, text="")).partition(b'"text":""')
    yield begin + b'"text":"'
    for first in range(0, len(result.text), MAX_ENCODED_CHARS):
        yield msgspec.json.encode(result.text[first : first + MAX_ENCODED_CHARS])[1:-1]
    yield b'"' + end


def refusal_response(refusal: Refusal, status: int | None = None) -> Response:
    """A response with an error. `status`: where HTTP has a more exact one than the refusal's kind."""
    details = refusal.details
    response = json_response(HttpError(error=details), status or refusal.status)
    if details.retry_after is not None:
        response.headers["retry-after"] = str(math.ceil(details.retry_after))
    if details.kind == "unauthorized":
        response.headers["www-authenticate"] = 'Bearer realm="dragoman"'
    return response


# -- server-sent events


def event(name: str, data: bytes, cursor: str = "") -> bytes:
    """One server-sent event. JSON has no line ends, so that one line of data is enough."""
    id_line = f"id: {cursor}\n" if cursor else ""
    return f"{id_line}event: {name}\ndata: ".encode() + data + b"\n\n"


def stream_event(message: StreamMessage) -> bytes:
    """A message of a session's stream as an event, with its cursor as the event's id."""
    return event(message.type, message.data, message.cursor)


def refusal_event(refusal: Refusal) -> bytes:
    return event("error", msgspec.json.encode(HttpError(error=refusal.details)))


async def until_gone(
    stream: AsyncGenerator[StreamMessage, None],
    *,
    stopping: asyncio.Event,
    disconnected: Callable[[], Coroutine[Any, Any, None]] | None = None,
    pause: float | None = None,
) -> AsyncGenerator[StreamMessage | None, None]:
    """The messages of a stream; None after `pause` seconds of silence.

    Ends when the server is `stopping`, and when `disconnected` returns.
    """
    stops: set[asyncio.Task[Any]] = {asyncio.create_task(stopping.wait())}
    if disconnected is not None:
        stops.add(asyncio.create_task(disconnected()))
    next_message: asyncio.Task[StreamMessage] | None = None
    try:
        while True:
            if next_message is None:
                next_message = asyncio.create_task(_next(stream))
            done, _ = await asyncio.wait({next_message, *stops}, timeout=pause, return_when=asyncio.FIRST_COMPLETED)
            if next_message in done:
                try:
                    message = next_message.result()
                except StopAsyncIteration:
                    return
                next_message = None
                yield message
            elif done:
                return
            else:
                yield None
    finally:
        tasks = stops | ({next_message} if next_message is not None else set())
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        if next_message is not None and not next_message.cancelled():
            next_message.exception()  # retrieved, so that asyncio does not log it


async def _next(stream: AsyncGenerator[StreamMessage, None]) -> StreamMessage:
    return await anext(stream)


# Files of the page's build with a hash in their name: their content never changes.
_HASHED: Final = re.compile(r"^/assets/.+[-.][A-Za-z0-9_-]{8,}\.\w+$")
CACHE_FOREVER: Final = "public, max-age=31536000, immutable"
CACHE_REVALIDATE: Final = "no-cache"

# The endings of files that the build compressed, the better first.
_COMPRESSED: Final = {".br": "br", ".gz": "gzip"}

# Compressing smaller files gains nothing noticeable.
MIN_COMPRESSED_BYTES: Final = 2048

# Some systems have no or wrong entries for these.
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}
_TEXTS: Final = ("text/", "application/json", "application/manifest+json", "image/svg+xml")


class StaticFile:
    def __init__(self, url: str, path: Path) -> None:
        self._data = path.read_bytes()
        self._media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._caching = CACHE_FOREVER if _HASHED.match(url) else CACHE_REVALIDATE
        self._etag = hashlib.sha256(self._data).hexdigest()[:32]
        self._compressed = {
            name: beside.read_bytes() for end, name in _COMPRESSED.items() if (beside := Path(f"{path}{end}")).is_file()
        }

    def response(self, headers: Headers) -> Response:
        accepted = {part.partition(";")[0].strip() for part in headers.get("accept-encoding", "").split(",")}
        encoding = next((name for name in self._encodings() if name in accepted), None)
        etag = f'"{self._etag}{f"-{encoding}" if encoding else ""}"'
        response_headers = {"cache-control": self._caching, "etag": etag, "vary": "accept-encoding"}
        if etag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=response_headers)
        if encoding is None:
            return Response(self._data, headers=response_headers, media_type=self._media_type)
        response_headers["content-encoding"] = encoding
        return Response(self._encoded(encoding), headers=response_headers, media_type=self._media_type)

    def _encodings(self) -> tuple[str, ...]:
        if not self._compressed and len(self._data) >= MIN_COMPRESSED_BYTES and self._media_type.startswith(_TEXTS):
            return ("gzip",)
        return tuple(self._compressed)

    def _encoded(self, encoding: str) -> bytes:
        """The compressed file. It is compressed at the first request if the build did not do it."""
        if encoding not in self._compressed:
            self._compressed[encoding] = gzip.compress(self._data, 6, mtime=0)
        return self._compressed[encoding]


def files_by_url(folder: Path, prefix: str = "/") -> dict[str, StaticFile]:
    """The files of a folder by their URL. Links that lead out of it, and hidden files, are left out."""
    root = folder.resolve()
    paths = {
        path
        for path in folder.rglob("*")
        if path.is_file()
        and path.resolve().is_relative_to(root)
        and not any(part.startswith(".") for part in path.relative_to(folder).parts)
    }
    urls = {
        prefix + path.relative_to(folder).as_posix(): path
        for path in paths
        if path.suffix not in _COMPRESSED or path.with_suffix("") not in paths
    }
    return {url: StaticFile(url, path) for url, path in urls.items()}


class BuiltPage:
    """The page as it was built last, and the files of the build before, which open browsers may still ask for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: tuple[int, int] | None = None
        self._files: dict[str, StaticFile] = {}
        self._previous: dict[str, StaticFile] = {}

    def get(self, url: str) -> StaticFile | None:
        self._refresh()
        return self._files.get(url) or self._previous.get(url)

    def _refresh(self) -> None:
        try:
            index = (self._folder / "index.html").stat()
            if (built := (index.st_ino, index.st_mtime_ns)) == self._built:
                return
            files = files_by_url(self._folder)
        except OSError:
            return  # missing, or being replaced right now: the files that were read before still serve
        self._previous = {url: file for url, file in self._files.items() if _HASHED.match(url)}
        self._files = files
        self._built = built
