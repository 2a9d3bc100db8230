"""Files that are served as they are: the page, where it was built, and a few pages of our own.

What may be had is read by walking the folder once: a request names an entry of that list, and never a path, so that
there is no path to climb out by. A page that is built, or built anew, while the server runs is read then.
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

# Of the page's build: what such a name holds never changes.
_HASHED: Final = re.compile(r"^/assets/.+[-.][A-Za-z0-9_-]{8,}\.\w+$")
FOREVER: Final = "public, max-age=31536000, immutable"
ASK_FIRST: Final = "no-cache"

# The endings of files that the build compressed, the better first.
_COMPRESSED: Final = {".br": "br", ".gz": "gzip"}

# Below this, compressing gains nothing that anyone would notice.
LEAST: Final = 2048

# Some systems have no or odd entries for these.
_TYPES: Final = {".js": "text/javascript", ".mjs": "text/javascript", ".webmanifest": "application/manifest+json"}
_TEXTS: Final = ("text/", "application/json", "application/manifest+json", "image/svg+xml")


class StaticFile:
    def __init__(self, url: str, path: Path) -> None:
        self._data = path.read_bytes()
        self._media_type = _TYPES.get(path.suffix) or mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        self._caching = FOREVER if _HASHED.match(url) else ASK_FIRST
        self._etag = hashlib.sha256(self._data).hexdigest()[:32]
        self._compressed = {
            name: beside.read_bytes() for end, name in _COMPRESSED.items() if (beside := Path(f"{path}{end}")).is_file()
        }

    def response(self, headers: Headers) -> Response:
        taken = {part.partition(";")[0].strip() for part in headers.get("accept-encoding", "").split(",")}
        encoding = next((name for name in self._encodings() if name in taken), None)
        etag = f'"{self._etag}{f"-{encoding}" if encoding else ""}"'
        answered = {"cache-control": self._caching, "etag": etag, "vary": "accept-encoding"}
        if etag in headers.get("if-none-match", ""):
            return Response(status_code=304, headers=answered)
        if encoding is None:
            return Response(self._data, headers=answered, media_type=self._media_type)
        answered["content-encoding"] = encoding
        return Response(self._in(encoding), headers=answered, media_type=self._media_type)

    def _encodings(self) -> tuple[str, ...]:
        if not self._compressed and len(self._data) >= LEAST and self._media_type.startswith(_TEXTS):
            return ("gzip",)
        return tuple(self._compressed)

    def _in(self, encoding: str) -> bytes:
        """What the build did not compress is, by us, when it is first asked for."""
        if encoding not in self._compressed:
            self._compressed[encoding] = gzip.compress(self._data, 6, mtime=0)
        return self._compressed[encoding]


def listed(folder: Path, prefix: str = "/") -> dict[str, StaticFile]:
    """What the folder holds, by the path it is asked for with. Links that lead out, and hidden files, are left out."""
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


class Page:
    """The page as it was built last. Of the build before, what browsers that have it open may still ask for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._built: tuple[int, int] | None = None
        self._files: dict[str, StaticFile] = {}
        self._before: dict[str, StaticFile] = {}

    def get(self, url: str) -> StaticFile | None:
        self._look()
        return self._files.get(url) or self._before.get(url)

    def _look(self) -> None:
        try:
            index = (self._folder / "index.html").stat()
            if (built := (index.st_ino, index.st_mtime_ns)) == self._built:
                return
            files = listed(self._folder)
        except OSError:
            return  # there is none, or it is just being put in its place: what was read before still serves
        self._before = {url: file for url, file in self._files.items() if _HASHED.match(url)}
        self._files = files
        self._built = built
