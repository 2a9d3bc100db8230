"""All errors of Dragoman, in one tree.

DragomanError
├── InputError               invalid input: names the field, file or option                         input
│   ├── ConfigError          a config file, preset or environment variable, with file and line      input
│   └── ScopeMissing         a client's token has not the scope that this needs                     input
├── StartError               the agent's process could not be started                               agent
│   ├── CommandNotFound      no such program (ENOENT, exit 127); carries the install line
│   ├── CommandNotExecutable the file exists but cannot be run (EACCES, exit 126, ENOEXEC)
│   ├── ExitedAtStart        it ran and ended before the handshake; carries its last stderr lines
│   ├── StartTimeout         it runs, but did not answer `initialize` in time                       transient
│   └── SandboxUnavailable   a sandbox was asked for, and cannot be had here
├── ProtocolError            a message breaks the Agent Client Protocol                             protocol
│   ├── UnsupportedVersion   the agent uses a protocol version that we do not support
│   ├── InvalidFrame         a response without a required field, or a line over the limit
│   └── CapabilityMissing    the agent does not support what was requested (named)
├── RequestFailed            the agent answered a request with a JSON-RPC error                     by its code
│   └── AuthenticationRequired   log in first; carries the agent's methods                          agent
├── RequestTimeout           the agent did not answer a request in time                             transient
├── AgentCrashed             the agent's process ended while it was needed                          agent
├── SessionError             this session cannot do that now                                        input
│   ├── SessionBusy          another run is active and the caller chose not to queue
│   ├── SessionClosed        the session, or the runtime under it, is closed
│   ├── CheckpointError      the workspace could not be recorded, compared or rewound
│   ├── GitActionError       a commit, push or pull request was refused, or failed
│   └── WorktreeError        a worktree could not be made, applied, merged or dropped
├── RunFailed                a run did not succeed                                                  agent
│   ├── StoppedEarly         max_tokens, max_turn_requests or refusal
│   ├── SilentFailure        `end_turn` without any text, thought, tool call or plan
│   ├── OutputInvalid        no value of the requested type within the rounds; carries the problems
│   ├── GuardFailed          a guard still objects after the last round
│   ├── BudgetNotReported    a budget on a figure that the agent never reports
│   └── LimitExceeded        one of our limits ended it                                             transient
│       ├── DeadlineExceeded     the run's deadline
│       ├── IdleLimitExceeded    the agent was silent for too long
│       └── BudgetExceeded       a budget is used up (named)                                        agent
├── ServerUnreachable        a `Client` cannot reach its server                                     transient
├── ServerRefused            the server of a `Client` refused a request                             input
└── Cancelled                the request was cancelled (-32800)                                     cancelled

Each error has a `category`, which says whether trying again can help, and `guidance`, which says what the user can do
now. Where a run had begun, `result` is its result so far.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal

Category = Literal["transient", "agent", "protocol", "cancelled", "input"]

# JSON-RPC 2.0 and ACP error codes.
PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
REQUEST_CANCELLED = -32800
AUTHENTICATION_REQUIRED = -32000
NOT_FOUND = -32002


def category_of_code(code: int) -> Category:
    """Return the category of a JSON-RPC error code, which says whether trying again can help."""
    if code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS):
        return "protocol"
    if code == INTERNAL_ERROR:
        return "transient"
    return "cancelled" if code == REQUEST_CANCELLED else "agent"


class DragomanError(Exception):
    """Base class of all errors. `str(error)` says what happened, `guidance` what to do about it."""

    category: Category = "agent"
    default_guidance: ClassVar[str] = ""

    def __init__(self, message: str, *, guidance: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.guidance = self.default_guidance if guidance is None else guidance
        self.result: Any = None  # the RunResult so far, where a run had begun

    def __str__(self) -> str:
        return self.message


class InputError(DragomanError):
    category = "input"


class ConfigError(InputError):
    """An invalid setting. `where` is its source: the file with the line, the variable or the option."""

    def __init__(self, message: str, *, where: str | None = None, guidance: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, guidance=guidance)
        self.where = where


class ScopeMissing(InputError):
    """A client asked for something that only a token with a higher scope may do."""


class StartError(DragomanError):
    """The agent could not be started. `stderr` is the end of its error output."""

    def __init__(
        self, message: str, *, guidance: str | None = None, stderr: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.stderr = stderr
        self.exit_code = exit_code


class CommandNotFound(StartError):
    """The program does not exist. `install` is the command that installs it, where one is known."""

    default_guidance = "Install the agent, or name its full path in the preset or with --agent-command."

    def __init__(
        self,
        message: str,
        *,
        install: str | None = None,
        guidance: str | None = None,
        stderr: str = "",
        exit_code: int | None = None,
    ) -> None:
        if guidance is None and install:
            guidance = f"Install it: {install}"
        super().__init__(message, guidance=guidance, stderr=stderr, exit_code=exit_code)
        self.install = install


class CommandNotExecutable(StartError):
    default_guidance = "Make the file executable (chmod +x), or name the interpreter that runs it."


class ExitedAtStart(StartError):
    default_guidance = (
        "The agent's last lines above usually say why. Run the same command in a terminal to see all of its output."
    )


class StartTimeout(StartError):
    category = "transient"
    default_guidance = (
        "A first start may download packages: raise start_timeout (--start-timeout), or run the command once by hand."
    )


class SandboxUnavailable(StartError):
    """A sandbox was asked for, and this machine cannot have it: nothing was started."""


class ProtocolError(DragomanError):
    category = "protocol"


class UnsupportedVersion(ProtocolError):
    default_guidance = "Install a version of the agent that speaks protocol version 1, or a newer Dragoman."


class InvalidFrame(ProtocolError):
    default_guidance = "This is a defect of the agent; the raw line is in the diagnostics."


class CapabilityMissing(ProtocolError):
    """The agent does not support a capability; `capability` is its name in the protocol."""

    def __init__(self, message: str, *, capability: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.capability = capability


class RequestFailed(DragomanError):
    """The agent answered a request with an error. The session stays usable."""

    def __init__(self, message: str, *, method: str, code: int, data: Any = None, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.method = method
        self.code = code
        self.data = data
        self.category = category_of_code(code)


class AuthenticationRequired(RequestFailed):
    """The user has to log in first. `methods` are the agent's login methods, as (id, name, description)."""

    default_guidance = "Log in (dragoman login AGENT), or set the agent's API key in the environment."

    def __init__(
        self,
        message: str,
        *,
        method: str,
        methods: Sequence[tuple[str, str, str]] = (),
        data: Any = None,
        guidance: str | None = None,
    ) -> None:
        super().__init__(message, method=method, code=AUTHENTICATION_REQUIRED, data=data, guidance=guidance)
        self.methods = tuple(methods)


class RequestTimeout(DragomanError):
    category = "transient"
    default_guidance = "The agent may be busy or stuck: try again, or raise the limit."

    def __init__(self, message: str, *, method: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.method = method


class AgentCrashed(DragomanError):
    """The agent's process ended while it was needed."""

    default_guidance = "Resume the session to go on; an agent that can load sessions loses nothing of it."

    def __init__(
        self, message: str, *, exit_code: int | None = None, stderr: str = "", guidance: str | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.exit_code = exit_code
        self.stderr = stderr


class SessionError(DragomanError):
    category = "input"


class SessionBusy(SessionError):
    default_guidance = "Await the active run, cancel it, or pass when_busy='queue'."


class SessionClosed(SessionError):
    default_guidance = "Open a new session, or resume this one."


class CheckpointError(SessionError):
    """A checkpoint could not be taken, compared or rewound to. The files of the workspace are as they were."""


class GitActionError(SessionError):
    """A commit, a push or a pull request was refused, or failed. `stderr` is what git, a hook or the remote wrote."""

    def __init__(self, message: str, *, stderr: str = "", guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.stderr = stderr


class WorktreeError(SessionError):
    """A worktree could not be made, applied, merged, dropped or recovered. The user's files are as they were."""


class RunFailed(DragomanError):
    """A run that did not succeed; `result` has the text so far."""


class StoppedEarly(RunFailed):
    def __init__(self, message: str, *, stop_reason: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.stop_reason = stop_reason


class SilentFailure(RunFailed):
    """`end_turn` and nothing else: usually a missing key, an unknown model or an expired login."""

    default_guidance = "Check the agent's login and model; its stderr, if any, is shown."

    def __init__(self, message: str, *, stderr: str = "", guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.stderr = stderr


class LimitExceeded(RunFailed):
    category: Category = "transient"


class DeadlineExceeded(LimitExceeded):
    default_guidance = "Give it more time (deadline), or a smaller task."


class IdleLimitExceeded(LimitExceeded):
    default_guidance = (
        "Raise idle_limit if the agent thinks for a long time in silence; time while a tool runs does not count."
    )


class ServerUnreachable(DragomanError):
    """A `Client` lost its server and stopped reconnecting. Runs on the server may continue."""

    category = "transient"
    default_guidance = "Check that `dragoman serve` is running there, then connect again and attach to the session."


class ServerRefused(DragomanError):
    """The server of a `Client` refused a request. `kind` says why: unauthorized, forbidden, not_found, …"""

    category = "input"

    def __init__(self, message: str, *, kind: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.kind = kind


class Cancelled(DragomanError):
    category = "cancelled"


class OutputInvalid(RunFailed):
    """The agent returned no valid value within the rounds. `problems` are those of its last value."""

    default_guidance = "Raise max_rounds, describe the expected value in the prompt, or simplify the type."

    def __init__(self, message: str, *, problems: Sequence[str] = (), guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.problems = tuple(problems)


class GuardFailed(RunFailed):
    """A guard still objects after the last round. `reasons` are its last objections."""

    default_guidance = "Raise max_rounds, or say in the prompt what the guard checks."

    def __init__(self, message: str, *, reasons: Sequence[str] = (), guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.reasons = tuple(reasons)


class BudgetExceeded(LimitExceeded):
    """A budget is used up. `budget` is its name; `used` and `allowed` are in the unit of the budget."""

    category = "agent"  # trying again would only use it up again
    default_guidance = "Raise the budget, or give it a smaller task."

    def __init__(
        self, message: str, *, budget: str, used: float | None = None, allowed: float, guidance: str | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.budget = budget
        self.used = used
        self.allowed = allowed


class BudgetNotReported(RunFailed):
    """A budget limits a figure that the agent never reports, so it cannot be checked."""

    default_guidance = "Remove this budget, or set seconds or tool_calls, which Dragoman counts itself."

    def __init__(self, message: str, *, budget: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.budget = budget
