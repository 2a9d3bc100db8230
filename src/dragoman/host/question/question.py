"""An agent's question to the person (`elicitation/create`), and the answers to it.

`on_question` gets a `Question` and returns one of its answers (`question.accept({"name": "Ada"})`), or a short form: a
mapping is the content of a form, True accepts what needs none, False declines, None cancels. It may be a coroutine
function; a plain function runs in a thread, so it may wait for a person without blocking anything else.

Declining and cancelling differ: declining says no, cancelling says nothing. A cancelled run, a closed prompt and a
question that nobody can see are therefore cancelled, never declined.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

import msgspec

from dragoman.errors import INVALID_PARAMS, InputError
from dragoman.host.question.form import Field, Form, Value, read_form
from dragoman.host.refusals import invalid
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId

Mode: TypeAlias = Literal["form", "url"]
MODES: tuple[Mode, ...] = ("form", "url")


# Characters of a URL; everything else is percent-encoded.
_URL_CHARS: Final = re.compile(r"[!#$%&'()*+,\-./0-9:;=?@A-Z\[\]_a-z~]+\Z")
_HOST: Final = re.compile(r"[0-9a-z.:_-]+\Z")

# Browsers accept no longer ones, and nobody can judge a URL that is not shown to its end.
MAX_URL_CHARS: Final = 8_000


class Page(msgspec.Struct, frozen=True):
    """A page that the agent wants opened. The agent uses `id` to say when it is done."""

    id: str
    url: str
    host: str  # in ASCII, as it is looked up: look-alike letters show as xn--…


class QuestionAnswer(msgspec.Struct, frozen=True):
    """An answer; `content` is None unless a form was accepted.

    `by` says who answered, where one `on_question` passes on the answers of several.
    """

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Value] | None = None
    by: Literal["person", "callback"] | None = None


DECLINED = QuestionAnswer("decline")
CANCELLED = QuestionAnswer("cancel")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """The agent's question: a form to fill in, or a page to open (`page`).

    All of it is text of the agent. `session_id` is None for a question outside of sessions, as during a login; `during`
    is then the id of our request that it belongs to. `request_id` is the JSON-RPC id of the question.
    """

    message: str
    agent: str = ""
    session_id: str | None = None
    tool_call_id: str | None = None
    form: Form = Form()
    page: Page | None = None
    request_id: RequestId | None = None
    during: RequestId | None = None
    raw: msgspec.Raw = msgspec.Raw(b"null")  # the whole request, `_meta` and unknown fields with it

    @property
    def fields(self) -> tuple[Field, ...]:
        return self.form.fields

    @property
    def defaults(self) -> dict[str, Value]:
        """The agent's suggestions: `question.accept({**question.defaults, "name": "Ada"})`."""
        return self.form.defaults

    @property
    def url(self) -> str | None:
        return self.page.url if self.page is not None else None

    def accept(self, content: Mapping[str, object] | None = None) -> QuestionAnswer:
        """Accept: send the content, or agree to open the page. `InputError` lists every field that does not fit."""
        if self.page is None:
            return QuestionAnswer("accept", self.form.validate(content or {}))
        if content:
            raise InputError(f"a page has no fields: {', '.join(content)} cannot be sent")
        return QuestionAnswer("accept")

    def decline(self) -> QuestionAnswer:
        """Decline to answer."""
        return DECLINED

    def cancel(self) -> QuestionAnswer:
        """Give no answer."""
        return CANCELLED


Reply: TypeAlias = QuestionAnswer | Mapping[str, object] | bool | None
OnQuestion: TypeAlias = Callable[[Question], Reply | Awaitable[Reply]]


def parse_answer(question: Question, reply: object) -> QuestionAnswer:
    """Turn what the callback returned into an answer. Raises `InputError` where it does not fit this question."""
    match reply:
        case None | QuestionAnswer(action="cancel"):
            return CANCELLED
        case False | QuestionAnswer(action="decline"):
            return DECLINED
        case True:
            return question.accept()
        case QuestionAnswer(action="accept", content=content):
            # Validate again: it may have been built by hand, or for another question.
            return question.accept(content)
        case Mapping():
            return question.accept(reply)
        case _:
            raise InputError(
                f"{reply!r} is not an answer to a question",
                guidance="Return question.accept({…}), .decline() or .cancel(); or a mapping, True, False, None.",
            )


def encode_answer(answer: QuestionAnswer) -> acp.CreateElicitationResponse:
    """Encode the answer for the protocol."""
    match answer.action:
        case "accept":
            return acp.ElicitationAcceptAction(content=answer.content)
        case "decline":
            return acp.ElicitationDeclineAction()
        case "cancel":
            return acp.ElicitationCancelAction()


class _WireParams(msgspec.Struct, frozen=True, rename="camel"):
    # More lenient than the vocabulary: one property of an unknown kind must not cost the others.
    mode: str = "form"  # agents that forward questions of MCP servers may leave it out
    message: str = ""
    requested_schema: msgspec.Raw = msgspec.Raw(b"{}")
    url: str | None = None
    elicitation_id: str | None = None
    session_id: str | None = None
    tool_call_id: object = None
    request_id: RequestId | None = None


def read_question(
    request: Request, *, agent: str = "", session_id: str | None = None, modes: Collection[Mode] = MODES
) -> Question:
    """Read `elicitation/create`. `RpcRefusal` where it is invalid, or of a mode that we do not offer."""
    try:
        params = msgspec.json.decode(request.params, type=_WireParams)
        if params.mode not in modes:
            raise invalid("mode", f"{params.mode!r} is not offered by this client")
        form = read_form(params.requested_schema) if params.mode == "form" else Form()
    except msgspec.MsgspecError as error:
        raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {error}") from None
    page = None
    if params.mode == "url":
        if not params.url or not params.elicitation_id:
            raise invalid("url" if not params.url else "elicitationId", "is missing")
        page = read_page(params.elicitation_id, params.url)
    return Question(
        message=params.message,
        agent=agent,
        session_id=session_id,
        tool_call_id=params.tool_call_id if isinstance(params.tool_call_id, str) else None,
        form=form,
        page=page,
        request_id=request.id,
        during=params.request_id if params.session_id is None else None,
        raw=request.params,
    )


# Pages


def read_page(id: str, url: str) -> Page:
    """Check the URL; `RpcRefusal` for one that nobody should be sent to.

    Promised: a browser opens exactly this URL, and `host` is where it leads. A URL that can be read in two ways (a user
    name before the host, backslashes, invisible characters) is refused.
    """
    if len(url) > MAX_URL_CHARS:
        raise invalid("url", f"has {len(url)} characters; the limit is {MAX_URL_CHARS}")
    ascii_url = _with_ascii_host(url)
    if not _URL_CHARS.match(ascii_url):
        raise invalid("url", f"{url!r} has characters that must be percent-encoded")
    try:
        parts = urlsplit(ascii_url)
        host, _ = parts.hostname or "", parts.port  # raises for a port that is not a number
    except ValueError as error:
        raise invalid("url", f"{url!r} cannot be read: {error}") from None
    if not _HOST.match(host) or not parts.netloc:
        raise invalid("url", f"{url!r} has no host")
    if "@" in parts.netloc:
        raise invalid("url", f"{url!r} has a user name before its host {host}, which is misleading")
    if parts.scheme != "https" and not (parts.scheme == "http" and _is_loopback(host)):
        raise invalid("url", f"{url!r} is neither https nor on this machine")
    return Page(id, ascii_url, host)


def _with_ascii_host(url: str) -> str:
    """Encode the host of the URL in ASCII. Other errors are found later."""
    if url.isascii():
        return url
    head, separator, rest = url.partition("://")
    host = re.split(r"[/?#:\\@]", rest, maxsplit=1)[0]
    try:
        # Characters that the encoding would change into others (ß, ZWJ) are refused.
        encoded = host.encode("idna").decode("ascii")
        if encoded.encode("ascii").decode("idna") != host.lower():
            return url
    except UnicodeError:
        return url
    return f"{head}{separator}{encoded}{rest[len(host) :]}"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
