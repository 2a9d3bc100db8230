"""Static files: the built page, and a few pages of our own.

The files are listed by walking the folder once: a request names an entry of that list and never a path, so that no path
can lead out of the folder. A page that is built while the server runs is read again.
"""

from __future__ import annotations

import gzip
import hashlib
import mimetypes
import re
from pathlib import Path
from typing import Final

from starlette.datastructures import Headers
from starlette.responses import Response

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
