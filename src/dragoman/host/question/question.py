"""What an agent asks the person (`elicitation/create`), and the answers to it.

`on_question` gets a `Question` and returns one of its answers (`question.accept({"name": "Ada"})`), or in short: a
mapping is the content of a form, True accepts what needs none, False declines, None cancels. It may be a coroutine
function; a plain function is run in a thread, so that it may wait for a person without stopping anything else.

Declining and cancelling are two things: who declines has said no; who cancels has said nothing. So a run that was
cancelled, a prompt that was closed and a question that nobody is there to see are cancelled, never declined.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Literal, TypeAlias

import msgspec

from dragoman.errors import INVALID_PARAMS, InputError
from dragoman.host.question.fields import Field, Value
from dragoman.host.question.form import Form, read_form
from dragoman.host.question.page import Page, read_page
from dragoman.host.refusals import invalid
from dragoman.wire import vocabulary as acp
from dragoman.wire.connection import RpcRefusal
from dragoman.wire.messages import Request, RequestId

Mode: TypeAlias = Literal["form", "url"]
MODES: tuple[Mode, ...] = ("form", "url")


class QuestionAnswer(msgspec.Struct, frozen=True):
    """`content` is what the form was filled with; None unless it was accepted. `by`: who gave it, where one
    `on_question` brings the answers of several."""

    action: Literal["accept", "decline", "cancel"]
    content: dict[str, Value] | None = None
    by: Literal["person", "callback"] | None = None


DECLINED = QuestionAnswer("decline")
CANCELLED = QuestionAnswer("cancel")


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What the agent wants to know: the fields of a form; or the page that it wants opened (`page`).

    All of it is the agent's word. `session_id` is None where it is asked outside of sessions, as during a login;
    `during` is then the id of the request of ours that it is about. `request_id` is the JSON-RPC id of the question.
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
        """What the agent suggests: `question.accept({**question.defaults, "name": "Ada"})`."""
        return self.form.defaults

    @property
    def url(self) -> str | None:
        return self.page.url if self.page is not None else None

    def accept(self, content: Mapping[str, object] | None = None) -> QuestionAnswer:
        """Answer it. Of a page: it is, or will be, opened. `InputError` says field by field what does not fit."""
        if self.page is None:
            return QuestionAnswer("accept", self.form.validate(content or {}))
        if content:
            raise InputError(f"a page is opened, not filled in: {', '.join(content)} cannot be sent with it")
        return QuestionAnswer("accept")

    def decline(self) -> QuestionAnswer:
        """Say no."""
        return DECLINED

    def cancel(self) -> QuestionAnswer:
        """Say nothing."""
        return CANCELLED


Reply: TypeAlias = QuestionAnswer | Mapping[str, object] | bool | None
OnQuestion: TypeAlias = Callable[[Question], Reply | Awaitable[Reply]]


def answer_of(question: Question, reply: object) -> QuestionAnswer:
    """What the callback meant. Raises `InputError` where it is no answer to this question."""
    match reply:
        case None | QuestionAnswer(action="cancel"):
            return CANCELLED
        case False | QuestionAnswer(action="decline"):
            return DECLINED
        case True:
            return question.accept()
        case QuestionAnswer(action="accept", content=content):
            # Looked at again: it may have been made by hand, or for another question.
            return question.accept(content)
        case Mapping():
            return question.accept(reply)
        case _:
            raise InputError(
                f"{reply!r} is no answer to a question",
                guidance="Return question.accept({…}), .decline() or .cancel(); or a mapping, True, False, None.",
            )


def response_of(answer: QuestionAnswer) -> acp.CreateElicitationResponse:
    """The answer in the protocol's words."""
    match answer.action:
        case "accept":
            return acp.ElicitationAcceptAction(content=answer.content)
        case "decline":
            return acp.ElicitationDeclineAction()
        case "cancel":
            return acp.ElicitationCancelAction()


class _WireParams(msgspec.Struct, frozen=True, rename="camel"):
    # More open than the vocabulary: one property of a kind we do not know must not cost the others.
    mode: str = "form"  # what those who forward the questions of MCP servers may leave out
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
    """`elicitation/create` as a question. Raises the refusal for what is no question, or of a mode not offered."""
    try:
        said = msgspec.json.decode(request.params, type=_WireParams)
        if said.mode not in modes:
            raise invalid("mode", f"{said.mode!r} is not offered by this client")
        form = read_form(said.requested_schema) if said.mode == "form" else Form()
    except msgspec.MsgspecError as problem:
        raise RpcRefusal(INVALID_PARAMS, f"{request.method}: {problem}") from None
    page = None
    if said.mode == "url":
        if not said.url or not said.elicitation_id:
            raise invalid("url" if not said.url else "elicitationId", "is missing")
        page = read_page(said.elicitation_id, said.url)
    return Question(
        message=said.message,
        agent=agent,
        session_id=session_id,
        tool_call_id=said.tool_call_id if isinstance(said.tool_call_id, str) else None,
        form=form,
        page=page,
        request_id=request.id,
        during=said.request_id if said.session_id is None else None,
        raw=request.params,
    )
