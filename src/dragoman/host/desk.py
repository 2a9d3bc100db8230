"""`Desk`: where one session's requests are decided: by a rule, by what was approved before, or by whoever is asked.

Promised: `note` has every decision, with who and why, before the agent hears of it (G8); an answer that is meant for
good is remembered before it is given, and at once answers what else waits; after `cancel_pending` nothing waits (G5).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final, cast

import msgspec

from dragoman.host.approvals import Approvals
from dragoman.host.broker import Asked, Broker, By, Decision, by_rule
from dragoman.host.permission import CANCELLED, OnPermission, OwnTools, PermissionRequest
from dragoman.host.policy.remembered import DerivedRules
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rules import Rule, Verdict
from dragoman.host.refusals import denied, withdrawn
from dragoman.record import notes
from dragoman.wire.messages import Request, RequestId
from dragoman.wire.vocabulary import PermissionOption, PermissionOptionKind
from dragoman.workspace import Workspace

# Heard and not served yet: as many as may come in one read. Those that were taken back meanwhile are never served.
MOST_ANNOUNCED: Final = 1024

_OWN_TOOL: Final = Verdict("allow", "it is a tool of the program that drives the agent", layer="session")


class Desk:
    def __init__(
        self,
        workspace: Workspace,
        rules: Rulebook,
        note: Callable[[notes.Note], None],
        on_permission: OnPermission | None,
        time_limit: float | None,
    ) -> None:
        self._rules = rules
        self._note = note
        self._broker = Broker(on_permission, rules, time_limit)
        whoever: object = on_permission  # a function is no more than that to mypy
        self._own_tools = whoever if isinstance(whoever, OwnTools) else None
        self._approvals = Approvals(workspace)
        self._cancelling: str | None = None  # why whatever is asked now is answered `cancelled`
        self._announced: dict[RequestId, tuple[Request, Asked]] = {}  # heard, and not served yet
        self._closed = False

    @property
    def pending(self) -> int:
        return self._broker.pending

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer all that waits `cancelled`; with `rest_of_run` also what comes before `run_ended`."""
        if rest_of_run:
            self._cancelling = "the run is being cancelled"
        self._broker.cancel_pending()
        self._approvals.clear()

    def begin_run(self, rules: tuple[Rule, ...]) -> None:
        self._rules.begin_run(rules)

    def run_ended(self) -> None:
        self._cancelling = None
        self._approvals.clear()

    def close(self) -> None:
        self._closed = True
        self.cancel_pending()

    def answer(self, request_id: RequestId, reply: object, by: By = "person") -> bool:
        """For whoever is asked by way of events. False: it has its answer already, and this one gains nothing."""
        return self._broker.answer(request_id, reply, by)

    def preview(self, request_id: RequestId, *, allowed: bool) -> DerivedRules:
        """What an answer for good would be remembered as."""
        asked = self._broker.waiting(request_id)
        return DerivedRules(error="it has its answer") if asked is None else self._rules.derived(asked, allowed=allowed)

    def announce(self, request: Request, asked: PermissionRequest) -> None:
        """The agent's question was heard, and is about to be told to others, who may answer it at once.

        From now on it is what it is: what the agent says of its tool call before `decide` was not shown to anyone.
        """
        asked = msgspec.structs.replace(asked, request_id=request.id)
        self._withdraw(request.id)
        if self._at_once(asked) is None:
            self._announced[request.id] = (request, self._broker.open(asked))
        while len(self._announced) > MOST_ANNOUNCED:
            self._withdraw(next(iter(self._announced)))

    def refused(self, request: Request) -> None:
        """It will not be decided, though it was announced."""
        if self._announced.get(request.id, (None,))[0] is request:
            self._withdraw(request.id)

    def _withdraw(self, request_id: RequestId) -> None:
        """What was announced under this id, where the agent took it back before it was served."""
        if announced := self._announced.pop(request_id, None):
            self._broker.withdraw(announced[1])

    async def decide(self, request: Request, asked: PermissionRequest) -> Decision:
        """What is to be answered to the agent, or done for it."""
        announced = None
        if self._announced.get(request.id, (None,))[0] is request:  # ids are used again, also by those who deceive
            _, announced = self._announced.pop(request.id)
        asked = msgspec.structs.replace(asked, request_id=request.id) if announced is None else announced.asked
        try:
            decision = await self._decided(asked, announced)
        except asyncio.CancelledError:
            gone = Decision(CANCELLED, "cancel", "the agent withdrew its request, or the connection ended")
            self._note(_note(asked, gone))
            raise
        remembered: tuple[str, ...] = ()
        if decision.answer.always and decision.by in ("person", "callback"):
            memory = self._rules.remember(asked, allowed=decision.answer.allowed)
            remembered = memory.ids
            decision = msgspec.structs.replace(decision, reason=f"{decision.reason}; {memory.text}")
        self._note(_note(asked, decision, remembered))
        if remembered:
            self._broker.reconsider()
        if asked.origin == "agent":
            self._approve(asked, decision)
        return decision

    def denies(self, asked: PermissionRequest) -> bool:
        """Whether a rule denies it, whoever might be asked."""
        return self._rules.judge(asked).decision == "deny"

    async def permit(self, request: Request, asked: PermissionRequest) -> Decision:
        """Return if this, which the agent wants us to do, is allowed; `RpcRefusal` where it is not."""
        decision = await self.decide(request, asked)
        what = f"{request.method} ({asked.title})"
        if decision.answer.outcome == "cancelled":
            raise withdrawn(what)
        if not decision.answer.allowed:
            raise denied(what, decision.reason)
        return decision

    def _approve(self, asked: PermissionRequest, decision: Decision) -> None:
        """A person allowed the agent this, with its content shown: it is not asked again when it is carried out."""
        # Every option of that id: where one of them refuses, nobody can tell which was meant.
        meant = [option.allows for option in asked.options if option.id == decision.answer.option_id]
        if decision.by in ("person", "callback") and decision.answer.allowed and all(meant):
            self._approvals.add(asked)

    async def _decided(self, asked: PermissionRequest, announced: Asked | None) -> Decision:
        if announced is not None:
            return await self._broker.ask(announced)
        decision = self._at_once(asked)
        if decision is not None:
            return decision
        waiting = self._broker.open(asked)
        if asked.origin != "agent":
            self._note(_asked(asked))
        return await self._broker.ask(waiting)

    def _at_once(self, asked: PermissionRequest) -> Decision | None:
        """What needs nobody to be asked."""
        if self._closed:
            return Decision(CANCELLED, "cancel", "the session is closed")
        if self._cancelling is not None:
            return Decision(CANCELLED, "cancel", self._cancelling)
        if self._own_tools is not None and self._own_tools.is_own(asked):
            return by_rule(asked, _OWN_TOOL)
        verdict = self._rules.judge(asked)
        if verdict.decision != "ask":
            return by_rule(asked, verdict)
        if asked.origin == "files" and asked.kind == "read" and verdict.layer in (None, "built in"):
            # It is inside the workspace, and no rule of anyone's is about it: asked for each file, people stop reading.
            allowed = Verdict("allow", "it reads inside the workspace, which is not asked", verdict.rule, verdict.layer)
            return by_rule(asked, allowed)
        if asked.origin != "agent" and self._approvals.take(asked):
            return Decision(asked.allow(), "callback", "it was allowed when the agent asked for it")
        if asked.origin == "files" and asked.diffs and all(diff.old_text == diff.new_text for diff in asked.diffs):
            # OpenCode writes a file itself, and then has us write it: there is nothing left to decide.
            return by_rule(asked, Verdict("allow", "the file has this text already", verdict.rule, verdict.layer))
        return None


def _asked(asked: PermissionRequest) -> notes.Asked:
    assert asked.request_id is not None
    options = tuple(
        PermissionOption(option_id=option.id, name=option.name, kind=cast("PermissionOptionKind", option.kind))
        for option in asked.options  # our own
    )
    return notes.Asked(asked.request_id, asked.origin, asked.title, asked.kind, options)


def _note(asked: PermissionRequest, decision: Decision, remembered: tuple[str, ...] = ()) -> notes.Decision:
    assert asked.request_id is not None
    answer = decision.answer
    return notes.Decision(
        asked.request_id,
        decision.by,
        decision.reason,
        decision="cancelled" if answer.outcome == "cancelled" else "allow" if answer.allowed else "deny",
        option_id=answer.option_id,
        rule=decision.rule,
        layer=decision.layer,
        remembered=remembered,
    )
