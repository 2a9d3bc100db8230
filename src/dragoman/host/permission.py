"""Permission requests of an agent, and the answers to them.

`on_permission` gets a `PermissionRequest` and returns one of its answers (`request.allow()`), or in short: True allows
once, False refuses once, a string is the id of the option to take, None cancels. It may be a coroutine function; a
plain function is run in a thread, so that it may wait for a person without stopping anything else.

Options are chosen by their kind, never by their position: agents list them in every order.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import msgspec

from dragoman.errors import InputError
from dragoman.wire.messages import RequestId
from dragoman.wire.vocabulary import Diff

Origin: TypeAlias = Literal["agent", "files", "terminals"]

_ALLOWING = ("allow_once", "allow_always")
_REJECTING = ("reject_once", "reject_always")


class Option(msgspec.Struct, frozen=True):
    """One of the agent's own answers. `kind`: allow_once, allow_always, reject_once, reject_always, or its own word."""

    id: str
    name: str
    kind: str

    @property
    def allows(self) -> bool:
        return self.kind in _ALLOWING

    @property
    def rejects(self) -> bool:
        return self.kind in _REJECTING


class PermissionAnswer(msgspec.Struct, frozen=True):
    """`selected` with the option taken, or `cancelled`. A cancelled request makes most agents end their turn.

    `always`: it is meant for the next times too, and is remembered for the workspace, whatever the agent offers. With
    `only_files` it covers the files of the request, not their folder.
    """

    outcome: Literal["selected", "cancelled"]
    option_id: str | None = None
    allowed: bool = False
    always: bool = False
    only_files: bool = False


CANCELLED = PermissionAnswer("cancelled")


class PermissionRequest(msgspec.Struct, frozen=True, kw_only=True):
    """An action that the agent wants to take, as far as it says so.

    `origin` tells who asks: the `agent` itself, or we, about a file it wants us to write (`files`) or a command it
    wants us to run (`terminals`); then there is no tool call, and paths and command are facts. All else is the agent's
    word. `first_title` is the title with which the agent reported the tool call before it asked.
    `paths` are absolute: the locations and the diffs' paths. `files_through_us`: a file to edit that the agent
    does not name here is named, and decided on, when it has us write it. `request_id` is the JSON-RPC id of what the
    agent asked; it may use it again once that was answered. `agent` is the agent's id, or its name where it has none.
    `reason` says why it always needs an answer, whatever rules allow; empty for others.
    """

    session_id: str
    agent: str = ""
    tool_call_id: str | None
    title: str
    kind: str
    options: tuple[Option, ...]
    origin: Origin = "agent"
    name: str | None = None
    first_title: str = ""
    paths: tuple[str, ...] = ()
    diffs: tuple[Diff, ...] = ()
    command: str | None = None
    raw_input: Any = None
    files_through_us: bool = False
    request_id: RequestId | None = None
    reason: str = ""

    def allow(self, *, always: bool = False, only_files: bool = False) -> PermissionAnswer:
        """Allow it once, or from now on; the other of the two where the agent offers only that.

        With `only_files`, "from now on" covers the files of this request, not their folder; the agent itself is told
        "once", because it would remember more.
        """
        for kind in reversed(_ALLOWING) if always and not only_files else _ALLOWING:
            for option in self.options:
                if option.kind == kind:
                    return PermissionAnswer("selected", option.id, allowed=True, always=always, only_files=only_files)
        raise InputError(
            f"the agent offers no option that allows {self.title!r}: {_listed(self.options)}",
            guidance="Choose one of its options by id with select(), or refuse.",
        )

    def reject(self, *, always: bool = False) -> PermissionAnswer:
        """Refuse it once, or from now on; the other where there is only that; where there is neither, cancel."""
        # An id that also stands for something else could be read as that by the agent.
        ambiguous = {option.id for option in self.options if not option.rejects}
        for kind in reversed(_REJECTING) if always else _REJECTING:
            for option in self.options:
                if option.kind == kind and option.id not in ambiguous:
                    return PermissionAnswer("selected", option.id, always=always)
        return PermissionAnswer("cancelled", always=always)

    def select(self, option_id: str) -> PermissionAnswer:
        """Take this option of the agent's."""
        kinds = [option for option in self.options if option.id == option_id]
        if not kinds:
            raise InputError(f"there is no option {option_id!r}: {_listed(self.options)}")
        # Remembered only where every option of that id says so, and all mean the same.
        always = all(option.kind.endswith("_always") for option in kinds) and len({o.allows for o in kinds}) == 1
        return PermissionAnswer("selected", option_id, allowed=any(option.allows for option in kinds), always=always)

    def cancel(self) -> PermissionAnswer:
        return CANCELLED


Reply: TypeAlias = PermissionAnswer | bool | str | None
OnPermission: TypeAlias = Callable[[PermissionRequest], Reply | Awaitable[Reply]]


@runtime_checkable
class OwnTools(Protocol):
    """An `on_permission` of a program that serves tools to the agent, and knows when one of them is meant.

    These are allowed whatever any rule makes of their arguments, and nobody is asked. As that is no answer of a
    person's, it covers nothing that the agent asks of us later.
    """

    def is_own(self, request: PermissionRequest) -> bool: ...


def answer_later(request: object) -> None:
    """Mark, as `on_permission` or `on_question`, that no callback answers.

    The request waits for `session.answer_permission` or `session.answer_question`.
    """
    raise AssertionError("answer_later is a marker, and is not called")


def answer_of(request: PermissionRequest, reply: object) -> PermissionAnswer:
    """Return the answer that a callback's reply means. `InputError` where it is no answer to this request."""
    match reply:
        case None:
            return CANCELLED
        case PermissionAnswer(outcome="cancelled", always=always):
            return PermissionAnswer("cancelled", always=always)
        case True:
            return request.allow()
        case False:
            return request.reject()
        case str():
            return request.select(reply)
        case PermissionAnswer(outcome="selected", option_id=str(option_id)):
            # Looked up again: it may have been made by hand, or for another request.
            return msgspec.structs.replace(request.select(option_id), always=reply.always, only_files=reply.only_files)
        case _:
            raise InputError(
                f"{reply!r} is no answer to a permission request",
                guidance="Return request.allow(), .reject(), .select(id) or .cancel(); or True, False, an id, None.",
            )


def _listed(options: tuple[Option, ...]) -> str:
    if not options:
        return "it offers none at all"
    return "it offers " + ", ".join(f"{option.id!r} ({option.kind})" for option in options)
