"""`Broker`: the permission requests of one session that wait for an answer.

Promised: each is answered once, by the first of: the callback, `answer`, a rule that came meanwhile (`reconsider`), the
time limit, `cancel_pending`; whoever comes later is told so and gains nothing. Requests do not wait for each other.
What goes wrong in the callback denies, and says so.
"""

from __future__ import annotations

import asyncio
from typing import Final, Literal, TypeAlias

import msgspec

from dragoman.config import format_duration
from dragoman.errors import ConfigError, InputError
from dragoman.host.callback import call
from dragoman.host.permission import (
    CANCELLED,
    Answer,
    OnPermission,
    PermissionRequest,
    answer_later,
    answer_of,
)
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rules import Verdict
from dragoman.host.waiting import Waiting
from dragoman.wire.messages import RequestId

By: TypeAlias = Literal["rule", "person", "callback", "default", "timeout", "cancel"]

NOBODY: Final = "nobody to ask: pass on_permission=… or access='edit-inside'|'full' (command line: --access)"

# Seconds between two looks at the rules while somebody is asked: another session, or another process, may have got an
# answer for good. Three calls to the system each, and soon enough for a person to find the question gone.
LOOK_AGAIN: Final = 0.25


class Decision(msgspec.Struct, frozen=True):
    """An answer, who gave it, and why; `rule` and `layer` name the rule where one decided, or was made of it."""

    answer: Answer
    by: By
    reason: str
    rule: str | None = None
    layer: str | None = None


Asked: TypeAlias = Waiting[PermissionRequest, Decision]


class Broker:
    """`time_limit` is seconds until nobody's answer is a refusal."""

    def __init__(self, on_permission: OnPermission | None, rules: Rulebook, time_limit: float | None = None) -> None:
        self._callback = on_permission
        self._rules = rules
        self._time_limit = time_limit
        self._waiting: list[Asked] = []
        self._considered = rules.version  # the rules that all that waits was judged by

    @property
    def pending(self) -> int:
        return sum(not waiting.decided for waiting in self._waiting)

    def cancel_pending(self) -> None:
        for waiting in self._waiting:
            waiting.decide(Decision(CANCELLED, "cancel", "the run was cancelled before it was answered"))
        self._waiting.clear()

    def reconsider(self) -> None:
        """The rules have changed: what they now answer needs no person any more."""
        self._considered = self._rules.version
        for waiting in list(self._waiting):
            verdict = self._rules.judge(waiting.asked)
            if verdict.decision != "ask":
                waiting.decide(by_rule(waiting.asked, verdict))

    def answer(self, request_id: RequestId, reply: object, by: By = "person") -> bool:
        """Answer a request that waits. False: it has been answered, or withdrawn. Raises where that is no answer."""
        for waiting in self._waiting:
            if waiting.asked.request_id == request_id and not waiting.decided:
                return waiting.decide(_decision(answer_of(waiting.asked, reply), by))
        return False

    def waiting(self, request_id: RequestId) -> PermissionRequest | None:
        """The request that waits under this id."""
        return next((one.asked for one in self._waiting if one.asked.request_id == request_id), None)

    def open(self, request: PermissionRequest) -> Asked:
        """From now on it can be answered; `ask` is to follow."""
        waiting: Asked = Waiting(request)
        if self._callback is None:
            waiting.decide(Decision(request.reject(), "default", NOBODY))
        self._waiting.append(waiting)
        return waiting

    def withdraw(self, waiting: Asked) -> None:
        """Nobody will `ask` it."""
        waiting.decide(Decision(CANCELLED, "cancel", "the agent withdrew its request"))
        if waiting in self._waiting:
            self._waiting.remove(waiting)

    async def ask(self, waiting: Asked) -> Decision:
        looking = asyncio.get_running_loop().create_task(self._look_again(), name="dragoman looks at the rules")
        try:
            decision = await waiting.outcome(self._consult(waiting), self._time_limit)
        finally:
            looking.cancel()
            if waiting in self._waiting:
                self._waiting.remove(waiting)
        limit = format_duration(self._time_limit or 0)
        return decision or Decision(waiting.asked.reject(), "timeout", f"denied: nobody answered within {limit}")

    async def _look_again(self) -> None:
        while True:
            await asyncio.sleep(LOOK_AGAIN)
            try:
                self._rules.refresh()
            except ConfigError:
                continue  # what cannot be read answers nothing
            if self._rules.version != self._considered:
                self.reconsider()

    async def _consult(self, waiting: Asked) -> None:
        request, callback = waiting.asked, self._callback
        if callback is None or callback is answer_later:
            return
        try:
            answer = answer_of(request, await call(callback, request))
            waiting.decide(_decision(answer, getattr(callback, "answers_as", "callback")))
        except asyncio.CancelledError:
            waiting.decide(Decision(request.reject(), "callback", "denied: on_permission was itself cancelled"))
            raise
        except Exception as problem:
            reason = f"denied: on_permission failed: {type(problem).__name__}: {problem}"
            waiting.decide(Decision(request.reject(), "callback", reason))


def by_rule(request: PermissionRequest, verdict: Verdict) -> Decision:
    """What a rule that allows or denies makes of the agent's options."""
    answer, reason = CANCELLED, verdict.reason
    if verdict.decision != "allow":
        answer = request.reject()
    else:
        try:
            answer = request.allow()
        except InputError as problem:  # no option allows: there is nothing to take but the way out
            reason = f"{verdict.reason}, but {problem}"
    return Decision(answer, "rule", reason, verdict.rule, verdict.layer)


def _decision(answer: Answer, by: By) -> Decision:
    who = "a person" if by == "person" else "on_permission"
    did = "cancelled" if answer.outcome == "cancelled" else "allowed" if answer.allowed else "refused"
    return Decision(answer, by, f"{who} {did} it")
