"""The server's log, on stderr: lines for people, or one JSON object a line. No token and no pairing code gets into it.

A record may carry `extra={"fields": {...}}`; in JSON they are keys of their own.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import msgspec

from dragoman.bridge.tokens import PREFIX

# What is written by us, and by what serves for us.
LOGGERS: Final = ("dragoman", "uvicorn", "websockets")

HIDDEN: Final = "[hidden]"
_SECRETS: Final = re.compile(
    rf"{PREFIX}[A-Za-z0-9_-]+"
    r"|(?<=/pair#)[A-Za-z0-9_-]+"
    r"|(?<=dragoman_)(\d+=)[^;\s]+"
    r"|(?i:(?<=bearer )|(?<=basic ))[^\s\"']+"
)


def redacted(text: str) -> str:
    return _SECRETS.sub(lambda found: (found[1] or "") + HIDDEN, text)


class _Lines(logging.Formatter):
    """As a person reads it."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        mark = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return redacted(f"{when} {mark}{record.getMessage()}{_trace(record)}")


class _Objects(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if trace := _trace(record):
            line["trace"] = trace.strip()
        return redacted(msgspec.json.encode(line).decode())


def set_up_log(form: Literal["human", "json"], *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """For the whole process: to be called once, by a command. People see requests only with `verbose`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Objects() if form == "json" else _Lines())
    for name in LOGGERS:
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.propagate = False
        logger.setLevel(logging.INFO if name == "dragoman" or verbose else logging.WARNING)
    logging.getLogger("dragoman.access").setLevel(logging.INFO if verbose or form == "json" else logging.WARNING)


def _trace(record: logging.LogRecord) -> str:
    if record.exc_info is None or record.exc_info[0] is None:
        return ""
    return "\n" + "".join(traceback.format_exception(*record.exc_info)).rstrip()
