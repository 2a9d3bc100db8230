"""The server's log: its two forms, and what never gets into it."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from bridge.stub_server import StubServer
from dragoman.bridge.telemetry import LOGGERS, MAX_REPEATS, REPEAT_PERIOD_S, redact, set_up_log


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    loggers = [logging.getLogger(name) for name in (*LOGGERS, "dragoman.access")]
    before = [(one.handlers, one.propagate, one.level) for one in loggers]
    yield
    for logger, (handlers, propagate, level) in zip(loggers, before, strict=True):
        logger.handlers, logger.propagate = handlers, propagate
        logger.setLevel(level)


@pytest.mark.attempts("secrets")
@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("token dgm_AbC-_123 was sent", "token [hidden] was sent"),
        ("Authorization: Bearer abc.def", "Authorization: Bearer [hidden]"),
        ("http://127.0.0.1:8421/pair#Ab_c-1 opened", "http://127.0.0.1:8421/pair#[hidden] opened"),
        ("cookie: dragoman_8421=abc; other=1", "cookie: dragoman_8421=[hidden]; other=1"),
        ("nothing here", "nothing here"),
    ],
)
def test_secrets_are_hidden(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.attempts("secrets")
async def test_requests_are_logged_without_their_queries(server: StubServer) -> None:
    log = io.StringIO()
    set_up_log("json", stream=log)
    secret = server.token()
    async with server.program(token=secret) as program:
        await program.get("/v1/search?text=private")
        await program.get(f"/v1/sessions?token={secret}")
        await program.get(f"/v1/{secret}")
        await program.get(f"/v1/{secret.replace('_', '%5F')}/x")
        await program.get(f"/v1/{secret.replace('_', '%255f')}")
        await program.get(f"/v1/sessions?a={secret.replace('_', '%5f')}")
        await program.get("/v1/a%0a12:00:00%20forged")
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [(one["method"], one["path"], one["status"]) for one in lines] == [
        ("GET", "/v1/search", 200),
        ("GET", "/v1/sessions", 400),
        ("GET", "/v1/[hidden]", 400),
        ("GET", "/v1/[hidden]/x", 400),
        ("GET", "/v1/[hidden]", 400),
        ("GET", "/v1/sessions", 400),
        ("GET", "/v1/a%0a12:00:00%20forged", 404),
    ]
    assert "private" not in log.getvalue()
    assert secret.removeprefix("dgm_") not in log.getvalue()
    assert {"time", "level", "logger", "message", "client"} <= lines[0].keys()


def test_the_text_form_shows_errors_with_their_traces_and_no_requests() -> None:
    log = io.StringIO()
    set_up_log("human", stream=log)
    logging.getLogger("dragoman.access").info("GET /v1/health")
    problem = RuntimeError("with dgm_secret in it")
    logging.getLogger("dragoman.bridge").error("it went wrong", exc_info=problem)
    text = log.getvalue()
    assert "GET" not in text
    assert "error: it went wrong\nRuntimeError" in text
    assert "dgm_secret" not in text


def test_a_json_record_is_one_line_even_if_its_message_has_several() -> None:
    log = io.StringIO()
    set_up_log("json", stream=log)
    logging.getLogger("dragoman").warning("two\nlines")
    assert json.loads(log.getvalue()) == json.loads(log.getvalue().splitlines()[0])


def test_a_warning_that_repeats_is_counted_and_not_logged_each_time() -> None:
    log = io.StringIO()
    set_up_log("human", stream=log)
    logger = logging.getLogger("asyncio")

    def warn(number: int, seconds: float) -> None:
        record = logger.makeRecord(logger.name, logging.ERROR, __file__, 1, "number %d", (number,), None)
        record.created = seconds
        logger.handle(record)

    for number in range(1000):
        warn(number, 10.0)
    assert len(log.getvalue().splitlines()) == MAX_REPEATS
    logger.warning("another")
    assert "another" in log.getvalue()
    warn(1000, 10.0 + REPEAT_PERIOD_S)
    assert log.getvalue().splitlines()[-1].endswith("number 1000 (980 more of these were not logged)")
