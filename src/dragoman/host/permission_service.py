"""`PermissionService`: decides the permission requests of one session, by a rule, by an earlier approval, or by asking.

Promised: `note` has every decision, with who made it and why, before the agent hears of it (G8). Each request is
decided once, by the first of: the callback, `answer`, a rule that was added meanwhile, the limit, `cancel_pending`; a
later answer is reported as such and changes nothing. Requests do not wait for each other. An answer that is to be
remembered is stored before it is given, and at once answers what else waits. An exception in the callback denies, and
says so. After `cancel_pending` nothing waits (G5).

`Approvals` are actions that a person allowed with their content shown, and that the agent then asks us to carry out:
several agents ask for permission first and write the file, or run the command, through us afterwards. Asking about the
very same thing again would only teach people to say yes. An approval covers exactly what was shown, is used once, and
ends with its run.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Iterator
from typing import Final, Literal, TypeAlias, cast

import msgspec

from dragoman.clock import SYSTEM_CLOCK, Clock
from dragoman.config import ACCESS, Access, format_duration
from dragoman.errors import ConfigError, InputError
from dragoman.host.pending import PendingRequest, PendingRequests, call
from dragoman.host.permission import (
    CANCELLED,
    OnPermission,
    OwnTools,
    PermissionAnswer,
    PermissionRequest,
    answer_later,
    answer_of,
)
from dragoman.host.policy.remembered import DerivedRules
from dragoman.host.policy.rulebook import Rulebook
from dragoman.host.policy.rules import PolicyRule, Verdict
from dragoman.host.policy.tool_input import working_folder
from dragoman.host.refusals import denied, withdrawn
from dragoman.host.shell.wrappers import unwrap_shell
from dragoman.record import notes
from dragoman.wire.messages import Request, RequestId
from dragoman.wire.vocabulary import PermissionOption, PermissionOptionKind
from dragoman.workspace import OutsideWorkspace, Workspace

# Agents carry out at once what was allowed; those that do it without the host leave their approvals unused.
MAX_APPROVALS = 64


class Approvals:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._keys: dict[bytes, None] = {}

    def add(self, request: PermissionRequest) -> None:
        """Remember a request of the agent's that a person allowed."""
        for key in self._shown(request):
            self._keys.pop(key, None)
            self._keys[key] = None
        while len(self._keys) > MAX_APPROVALS:
            del self._keys[next(iter(self._keys))]

    def take(self, request: PermissionRequest) -> bool:
        """Return whether our own request, about a file or a command, was allowed before; the approval is used up."""
        keys = list(self._shown(request))
        # Also with a variable set the command is another one: the person saw none.
        if len(keys) != 1 or (request.origin == "terminals" and request.raw_input["env"]):
            return False
        return self._keys.pop(keys[0], self) is None

    def clear(self) -> None:
        self._keys.clear()

    def _shown(self, request: PermissionRequest) -> Iterator[bytes]:
        if request.command is not None:
            raw_input = request.raw_input if isinstance(request.raw_input, dict) else {}
            where = working_folder(raw_input, self._workspace.cwd)
            if where is not None:
                yield _key("run", self._real(where), unwrap_shell(request.command))
            return
        for diff in request.diffs:
            # With the old text: the person saw the difference, which depends on it.
            # Not with its line ends: nobody sees them, and agents tell them as they are in the file, or as LF.
            old_text = (diff.old_text or "").replace("\r\n", "\n")
            yield _key("write", self._real(diff.path), old_text, diff.new_text)

    def _real(self, path: str) -> str:
        try:
            return str(self._workspace.resolve(os.path.join(self._workspace.cwd, path)))
        except OutsideWorkspace:
            return path


def _key(*parts: str) -> bytes:
    """Return a digest: the texts may be large."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.digest()


By: TypeAlias = Literal["rule", "person", "callback", "default", "timeout", "cancel"]


def nobody_to_ask(access: Access, *, is_guarded: bool = False) -> str:
    """Return the reason for a denial without a question, with what would change that: never what is set already.

    `is_guarded`: rules and `edit-inside` cannot allow it.
    """
    enough: tuple[Access, ...] = ("full",) if is_guarded else ("edit-inside", "full")
    higher = "|".join(repr(each) for each in enough if ACCESS.index(each) > ACCESS.index(access))
    allowing = f"access={higher} (command line: --access)" if higher else "a rule that allows it"
    return f"nobody to ask: pass on_permission=… or {allowing}"


# Seconds between two looks at the rules while a request waits: another session, or another process, may have stored an
# answer that covers it. Each look is three system calls, and soon enough for a person to find the question gone.
RULES_POLL_S: Final = 0.25

# Requests that were announced and are not served yet: as many as may come in one read. Those that the agent withdrew
# meanwhile are never served.
MAX_ANNOUNCED: Final = 1024

_OWN_TOOL: Final = Verdict("allow", "it is a tool of the program that drives the agent", layer="session")


class Decision(msgspec.Struct, frozen=True):
    """An answer, who gave it, and why; `rule` and `layer` name the rule where one decided, or was made of it."""

    answer: PermissionAnswer
    by: By
    reason: str
    rule: str | None = None
    layer: str | None = None


_Pending: TypeAlias = PendingRequest[PermissionRequest, Decision]


class PermissionService:
    """`time_limit_s` is how long a request waits for an answer before it is denied."""

    def __init__(
        self,
        workspace: Workspace,
        rules: Rulebook,
        note: Callable[[notes.Note], None],
        on_permission: OnPermission | None,
        time_limit_s: float | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._rules = rules
        self._rules_version = rules.version  # the rules that every pending request was judged by
        self._note = note
        self._on_permission = on_permission
        callback: object = on_permission  # mypy takes a function to be no OwnTools
        self._own_tools = callback if isinstance(callback, OwnTools) else None
        self._clock = clock
        self._pending: PendingRequests[PermissionRequest, Decision] = PendingRequests(
            time_limit_s=time_limit_s, clock=clock
        )
        self._announced: dict[RequestId, tuple[Request, _Pending]] = {}  # not served yet
        self._approvals = Approvals(workspace)
        self._cancel_reason: str | None = None  # why every request of this run is now answered `cancelled`
        self._closed = False

    @property
    def pending(self) -> int:
        """The number of requests without an answer."""
        return len(self._pending)

    def begin_run(self, rules: tuple[PolicyRule, ...]) -> None:
        """Apply these rules to the run that begins, above all others."""
        self._rules.begin_run(rules)

    def run_ended(self) -> None:
        self._cancel_reason = None
        self._approvals.clear()

    def cancel_pending(self, *, rest_of_run: bool = False) -> None:
        """Answer every pending request `cancelled`; with `rest_of_run` also those that come before `run_ended`."""
        if rest_of_run:
            self._cancel_reason = "the run is being cancelled"
        reason = "the run was cancelled before it was answered"
        self._pending.cancel_all(lambda _: Decision(CANCELLED, "cancel", reason))
        self._approvals.clear()

    def close(self) -> None:
        self._closed = True
        self.cancel_pending()

    # -- answers from elsewhere than `on_permission`

    def get(self, request_id: RequestId) -> PermissionRequest | None:
        """Return the pending request under this id."""
        pending = self._pending.get(request_id)
        return pending.request if pending is not None else None

    def answer(self, request_id: RequestId, reply: object, by: By = "person") -> bool:
        """Answer a pending request. False: it comes too late, or was withdrawn. `InputError` for an unknown reply."""
        pending = self._pending.get(request_id)
        return pending is not None and pending.decide(_decision(answer_of(pending.request, reply), by))

    def preview(self, request_id: RequestId, *, allowed: bool, only_files: bool = False) -> DerivedRules:
        """Return the rules that an answer to be remembered would become."""
        pending = self._pending.get(request_id)
        if pending is None:
            return DerivedRules(error="it has its answer")
        return self._rules.derived(pending.request, allowed=allowed, only_files=only_files)

    # -- requests that are known before they are served

    def announce(self, request: Request, permission: PermissionRequest) -> None:
        """Open a request of the agent's before it is served: those who are shown it may answer at once.

        The request is fixed from now on: what the agent adds to its tool call before `decide` was shown to nobody.
        """
        permission = msgspec.structs.replace(permission, request_id=request.id)
        self._withdraw_announced(request.id)
        if self._decide_unasked(permission) is None:
            self._announced[request.id] = (request, pending := self._open(permission))
            self._note_guard(pending.request)
        while len(self._announced) > MAX_ANNOUNCED:
            self._withdraw_announced(next(iter(self._announced)))

    def refuse_announced(self, request: Request) -> None:
        """Withdraw a request that was announced and will not be served."""
        if self._announced.get(request.id, (None,))[0] is request:
            self._withdraw_announced(request.id)

    def _withdraw_announced(self, request_id: RequestId) -> None:
        if announced := self._announced.pop(request_id, None):
            self._pending.withdraw(announced[1], Decision(CANCELLED, "cancel", "the agent withdrew its request"))

    # -- deciding

    async def decide(self, request: Request, permission: PermissionRequest) -> Decision:
        """Decide what to answer the agent, or whether to do something for it."""
        announced = None
        if self._announced.get(request.id, (None,))[0] is request:  # a hostile agent uses an id twice
            _, announced = self._announced.pop(request.id)
        if announced is None:
            permission = msgspec.structs.replace(permission, request_id=request.id)
        else:
            permission = announced.request
        try:
            decision = await self._decide(permission, announced)
        except asyncio.CancelledError:
            reason = "the agent withdrew its request, or the connection ended"
            self._note(_decision_note(permission, Decision(CANCELLED, "cancel", reason)))
            raise
        remembered: tuple[str, ...] = ()
        if decision.answer.always and decision.by in ("person", "callback"):
            answer = decision.answer
            memory = self._rules.remember(permission, allowed=answer.allowed, only_files=answer.only_files)
            remembered = memory.ids
            decision = msgspec.structs.replace(decision, reason=f"{decision.reason}; {memory.text}")
        self._note(_decision_note(permission, decision, remembered))
        if remembered:
            self._judge_pending_again()
        if permission.origin == "agent":
            self._approve(permission, decision)
        return decision

    async def permit(self, request: Request, permission: PermissionRequest) -> Decision:
        """Return if the host may do this for the agent; `RpcRefusal` where it may not."""
        decision = await self.decide(request, permission)
        action = f"{request.method} ({permission.title})"
        if decision.answer.outcome == "cancelled":
            raise withdrawn(action)
        if not decision.answer.allowed:
            raise denied(action, decision.reason)
        return decision

    def denies(self, permission: PermissionRequest) -> bool:
        """Return whether a rule denies it, so that nobody would be asked."""
        return self._rules.judge(permission).decision == "deny"

    async def _decide(self, permission: PermissionRequest, announced: _Pending | None) -> Decision:
        if announced is not None:
            return await self._ask(announced)
        decision = self._decide_unasked(permission)
        if decision is not None:
            return decision
        pending = self._open(permission)
        if permission.origin != "agent":
            self._note(_request_note(permission))
        self._note_guard(pending.request)
        return await self._ask(pending)

    def _decide_unasked(self, permission: PermissionRequest) -> Decision | None:
        """Decide what needs nobody to be asked; None where somebody has to be."""
        if self._closed:
            return Decision(CANCELLED, "cancel", "the session is closed")
        if self._cancel_reason is not None:
            return Decision(CANCELLED, "cancel", self._cancel_reason)
        if self._own_tools is not None and self._own_tools.is_own(permission):
            return _decision_by_rule(permission, _OWN_TOOL)
        verdict = self._rules.judge(permission)
        if verdict.decision != "ask":
            return _decision_by_rule(permission, verdict)
        if permission.origin == "files" and permission.kind == "read" and verdict.layer in (None, "built in"):
            # It is inside the workspace, and no rule of anyone's is about it: asked for each file, people stop reading.
            reason = "it reads inside the workspace, which is not asked"
            return _decision_by_rule(permission, Verdict("allow", reason, verdict.rule, verdict.layer))
        if permission.origin != "agent" and self._approvals.take(permission):
            return Decision(permission.allow(), "callback", "it was allowed when the agent asked for it")
        diffs = permission.diffs
        if permission.origin == "files" and diffs and all(diff.old_text == diff.new_text for diff in diffs):
            # OpenCode writes a file itself, and then has us write it: there is nothing left to decide.
            reason = "the file has this text already"
            return _decision_by_rule(permission, Verdict("allow", reason, verdict.rule, verdict.layer))
        return None

    def _approve(self, permission: PermissionRequest, decision: Decision) -> None:
        """Remember what a person allowed the agent with its content shown: the host does not ask about it again."""
        # Every option of that id: where one of them refuses, nobody can tell which was meant.
        meanings = [option.allows for option in permission.options if option.id == decision.answer.option_id]
        if decision.by in ("person", "callback") and decision.answer.allowed and all(meanings):
            self._approvals.add(permission)

    # -- asking

    def _open(self, permission: PermissionRequest) -> _Pending:
        verdict = self._rules.judge(permission)
        if verdict.layer == "guard":
            permission = msgspec.structs.replace(permission, reason=verdict.reason)
        pending = self._pending.open(permission.request_id, permission)
        if self._on_permission is None:
            advice = nobody_to_ask(self._rules.access, is_guarded=bool(permission.reason))
            reason = f"{permission.reason}; {advice}" if permission.reason else advice
            pending.decide(Decision(permission.reject(), "default", reason))
        return pending

    def _note_guard(self, permission: PermissionRequest) -> None:
        if permission.reason:
            assert permission.request_id is not None
            self._note(notes.PermissionGuarded(permission.request_id, permission.reason))

    async def _ask(self, pending: _Pending) -> Decision:
        polling = asyncio.get_running_loop().create_task(self._poll_rules(), name="dragoman rules poll")
        try:
            decision = await self._pending.wait(pending, lambda: self._consult(pending))
        finally:
            polling.cancel()
        if decision is not None:
            return decision
        limit = format_duration(self._pending.time_limit_s or 0)
        return Decision(pending.request.reject(), "timeout", f"denied: nobody answered within {limit}")

    async def _consult(self, pending: _Pending) -> None:
        permission, callback = pending.request, self._on_permission
        if callback is None or callback is answer_later:
            return
        try:
            answer = answer_of(permission, await call(callback, permission))
            pending.decide(_decision(answer, getattr(callback, "answers_as", "callback")))
        except asyncio.CancelledError:
            pending.decide(Decision(permission.reject(), "callback", "denied: on_permission was itself cancelled"))
            raise
        except Exception as error:
            reason = f"denied: on_permission failed: {type(error).__name__}: {error}"
            pending.decide(Decision(permission.reject(), "callback", reason))

    async def _poll_rules(self) -> None:
        while True:
            await self._clock.sleep(RULES_POLL_S)
            try:
                self._rules.refresh()
            except ConfigError:
                continue  # a file that cannot be read answers nothing
            if self._rules.version != self._rules_version:
                self._judge_pending_again()

    def _judge_pending_again(self) -> None:
        """Decide the pending requests that the changed rules answer."""
        self._rules_version = self._rules.version
        for pending in self._pending:
            verdict = self._rules.judge(pending.request)
            if verdict.decision != "ask":
                pending.decide(_decision_by_rule(pending.request, verdict))


def _decision_by_rule(permission: PermissionRequest, verdict: Verdict) -> Decision:
    """Choose the agent's option for the verdict of a rule."""
    answer, reason = CANCELLED, verdict.reason
    if verdict.decision != "allow":
        answer = permission.reject()
    else:
        try:
            answer = permission.allow()
        except InputError as error:  # no option allows: there is nothing to take but the way out
            reason = f"{verdict.reason}, but {error}"
    return Decision(answer, "rule", reason, verdict.rule, verdict.layer)


def _decision(answer: PermissionAnswer, by: By) -> Decision:
    actor = "a person" if by == "person" else "on_permission"
    action = "cancelled" if answer.outcome == "cancelled" else "allowed" if answer.allowed else "refused"
    return Decision(answer, by, f"{actor} {action} it")


def _request_note(permission: PermissionRequest) -> notes.PermissionRequested:
    assert permission.request_id is not None
    options = tuple(
        PermissionOption(option_id=option.id, name=option.name, kind=cast("PermissionOptionKind", option.kind))
        for option in permission.options  # our own
    )
    return notes.PermissionRequested(
        permission.request_id, permission.origin, permission.title, permission.kind, options
    )


def _decision_note(
    permission: PermissionRequest, decision: Decision, remembered: tuple[str, ...] = ()
) -> notes.Decision:
    assert permission.request_id is not None
    answer = decision.answer
    return notes.Decision(
        permission.request_id,
        decision.by,
        decision.reason,
        decision="cancelled" if answer.outcome == "cancelled" else "allow" if answer.allowed else "deny",
        option_id=answer.option_id,
        rule=decision.rule,
        layer=decision.layer,
        remembered=remembered,
    )
