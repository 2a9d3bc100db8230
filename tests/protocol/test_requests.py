"""Declarations of requests: complete, consistent, documented, and each with a handler."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import msgspec
import pytest

from dragoman.bridge import bridge
from dragoman.bridge.services import HANDLERS, handles
from dragoman.hub.commands import Command, GitActionNoted
from dragoman.protocol import requests, results
from dragoman.protocol.models import Model
from dragoman.protocol.requests import REQUESTS, AnyRequest, Declaration

DECLARATIONS = pytest.mark.parametrize("declaration", REQUESTS.values(), ids=lambda declaration: declaration.name)
SOCKET_PAGE = Path(__file__).resolve().parents[2] / "docs/socket.md"


def test_every_request_has_one_handler_and_no_handler_is_left_over() -> None:
    assert bridge.HANDLER_MODULES
    assert HANDLERS.keys() == REQUESTS.keys()
    with pytest.raises(AssertionError, match="two handlers"):
        handles(requests.SessionList)(HANDLERS[requests.SessionList])


def test_every_request_class_is_declared() -> None:
    classes = {
        value
        for value in vars(requests).values()
        if isinstance(value, type) and issubclass(value, requests.Request) and value is not requests.Request
    }
    assert classes == set(REQUESTS)


@DECLARATIONS
def test_a_declaration_has_a_result_and_a_summary(declaration: Declaration) -> None:
    assert issubclass(declaration.result, Model)
    assert declaration.request.__doc__ != requests.Request.__doc__
    assert re.match(r"[A-Z][a-z]+\b", declaration.summary)


@DECLARATIONS
def test_a_route_takes_its_path_from_the_fields_and_reads_only_by_get(declaration: Declaration) -> None:
    if (route := declaration.route) is None:
        return
    assert route.path_fields <= set(declaration.request.__struct_fields__)
    assert set(route.defaults) <= set(declaration.request.__struct_fields__)
    assert declaration.changes is (route.method != "GET")


def test_the_commands_of_a_session_s_owner_pass_through_the_inbox() -> None:
    declared = {declaration.request for declaration in REQUESTS.values() if declaration.inbox}
    # `queue.add` becomes a prompt; a session that this process owns is closed without the inbox, and the files of one
    # that no process has open are rewound without it. Notes of git actions are sent by processes of ours only.
    without = {requests.SessionClose, requests.CheckpointRewind, GitActionNoted}
    assert declared == {*get_args(Command), requests.QueueAdd} - without
    assert all(REQUESTS[request].changes for request in declared)


@DECLARATIONS
def test_the_documents_list_it(declaration: Declaration) -> None:
    route = declaration.route
    columns = (
        f"`{declaration.name}`",
        declaration.summary,
        f"`{declaration.result.__name__}`",
        declaration.scope,
        f"`{route.method} {route.path}`" if route is not None else "",
    )
    assert f"| {' | '.join(columns)} |\n" in SOCKET_PAGE.read_text(encoding="utf-8")


def test_a_request_is_read_by_its_name_and_refuses_unknown_fields() -> None:
    request = msgspec.json.decode(b'{"type": "session.cancel", "id": "1", "session_id": "s"}', type=AnyRequest)
    assert request == requests.SessionCancel(id="1", session_id="s")
    assert REQUESTS[type(request)].result is results.Done
    with pytest.raises(msgspec.ValidationError, match="sudo"):
        msgspec.json.decode(b'{"type": "session.cancel", "id": "1", "session_id": "s", "sudo": 1}', type=AnyRequest)
