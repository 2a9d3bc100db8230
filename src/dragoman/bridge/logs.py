"""The server's log, on stderr: lines for people, or one JSON object per line. Tokens and pairing codes are redacted.

A record may carry `extra={"fields": {...}}`, which become keys of the JSON object.
"""

from __future__ import annotations

import logging
import re
import sys
import traceback
from datetime import UTC, datetime
from typing import Final, Literal, TextIO

import msgspec

from dragoman.bridge.tokens import TOKEN_PREFIX

# Our own loggers, and those of the libraries that serve.
LOGGERS: Final = ("dragoman", "uvicorn", "websockets")

REDACTED: Final = "[hidden]"
_SECRETS: Final = re.compile(
    rf"{TOKEN_PREFIX}[A-Za-z0-9_-]+"
    r"|(?<=/pair#)[A-Za-z0-9_-]+"
    r"|(?<=dragoman_)(\d+=)[^;\s]+"
    r"|(?i:(?<=bearer )|(?<=basic ))[^\s\"']+"
)


def redact(text: str) -> str:
    return _SECRETS.sub(lambda match: (match[1] or "") + REDACTED, text)


class _TextFormatter(logging.Formatter):
    """Lines for people."""

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created).astimezone().strftime("%H:%M:%S")
        mark = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        return redact(f"{when} {mark}{record.getMessage()}{_trace(record)}")


class _JsonFormatter(logging.Formatter):
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
        return redact(msgspec.json.encode(line).decode())


def set_up_log(form: Literal["human", "json"], *, verbose: bool = False, stream: TextIO | None = None) -> None:
    """Set up the log of the whole process. The text form shows requests only with `verbose`."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if form == "json" else _TextFormatter())
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
