"""Everything Dragoman raises, in one tree.

DragomanError
├── InputError               what the caller gave us is wrong: names the field, file or option      input
│   └── ConfigError          a config file, preset or environment variable, with file and line      input
├── StartError               the agent's process could not be brought up                            agent
│   ├── CommandNotFound      no such program (ENOENT, exit 127); carries the install line
│   ├── CommandNotExecutable the file is there, but may not be run (EACCES, exit 126, ENOEXEC)
│   ├── ExitedAtStart        it ran and ended before the handshake; carries its last stderr lines
│   └── StartTimeout         it runs, but did not answer `initialize` in time                       transient
├── ProtocolError            what was said is not the Agent Client Protocol as we know it           protocol
│   ├── UnsupportedVersion   the agent speaks a protocol version we do not
│   ├── InvalidFrame         an answer that lacks what we need, or a line over the limit
│   └── CapabilityMissing    the agent does not offer what was asked for (named)
├── RequestFailed            the agent answered a request with a JSON-RPC error                     by its code
│   └── AuthenticationRequired   log in first; carries the agent's methods                          agent
├── RequestTimeout           the agent did not answer a request in time                             transient
├── AgentCrashed             the agent's process ended while it was needed                          agent
├── SessionError             this session cannot do that now                                        input
│   ├── SessionBusy          another run is active and the caller chose not to queue
│   └── SessionClosed        the session, or the runtime under it, is closed
├── RunFailed                a run ended, but not well                                              agent
│   ├── StoppedEarly         max_tokens, max_turn_requests or refusal
│   ├── SilentFailure        `end_turn` without a single word, thought, tool call or plan
│   ├── OutputInvalid        no value of the wanted type within the rounds; carries what was wrong
│   ├── GuardFailed          a guard still objects when the rounds are used up
│   ├── BudgetNotReported    a budget on a figure that the agent never reports
│   └── LimitExceeded        a limit of ours ended it                                               transient
│       ├── DeadlineExceeded     the run's deadline
│       ├── IdleLimitExceeded    nothing was heard for too long
│       └── BudgetExceeded       a budget is used up (named)                                        agent
├── ServerUnreachable        the server of a `Client` cannot be reached, or no longer               transient
├── ServerRefused            the server of a `Client` does not do what was asked of it              input
└── Cancelled                the request was cancelled (-32800)                                     cancelled

Each error has a `category` that says whether trying again can help, and `guidance`: what the person
can do now. Where a run had begun, `result` holds what it had brought so far.
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
    """What a JSON-RPC error code says about trying again."""
    if code in (PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS):
        return "protocol"
    if code == INTERNAL_ERROR:
        return "transient"
    return "cancelled" if code == REQUEST_CANCELLED else "agent"


class DragomanError(Exception):
    """Base of all. `str(error)` says what happened, `guidance` what to do about it."""

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
    """A setting that cannot be used. `where` is the file (with line) or the variable it came from."""

    def __init__(self, message: str, *, where: str | None = None, guidance: str | None = None) -> None:
        super().__init__(f"{where}: {message}" if where else message, guidance=guidance)
        self.where = where


class StartError(DragomanError):
    """The agent could not be started. `stderr` is the tail of what it printed."""

    def __init__(
        self, message: str, *, guidance: str | None = None, stderr: str = "", exit_code: int | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.stderr = stderr
        self.exit_code = exit_code


class CommandNotFound(StartError):
    """`install` is the line that installs what is missing, where one is known."""

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
    default_guidance = "Its last lines above usually say why. Run the same command in a terminal to see it whole."


class StartTimeout(StartError):
    category = "transient"
    default_guidance = (
        "A first start may download packages: raise start_timeout (--start-timeout), or run the command once by hand."
    )


class ProtocolError(DragomanError):
    category = "protocol"


class UnsupportedVersion(ProtocolError):
    default_guidance = "Install a version of the agent that speaks protocol version 1, or a newer Dragoman."


class InvalidFrame(ProtocolError):
    default_guidance = "This is a defect of the agent; its raw line is in the diagnostics."


class CapabilityMissing(ProtocolError):
    """The agent does not offer what was asked for; `capability` is its name in the protocol."""

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
    """Log in first. `methods` are the agent's own ways, as (id, name, description)."""

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

    default_guidance = (
        "Its last lines, if any, say why. Open the session again; where the agent can load, nothing is lost."
    )

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
    default_guidance = "Open a new session, or resume this one from its snapshot."


class RunFailed(DragomanError):
    """A run that ended, but not well; `result` has the text so far."""


class StoppedEarly(RunFailed):
    def __init__(self, message: str, *, stop_reason: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.stop_reason = stop_reason


class SilentFailure(RunFailed):
    """`end_turn` and nothing else: most often a missing key, an unknown model or a lost login."""

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
        "Raise idle_limit if the agent thinks long without a sign; silence while a tool runs does not count."
    )


class ServerUnreachable(DragomanError):
    """A `Client` has no connection to its server, and gave up trying. What ran there may go on without us."""

    category = "transient"
    default_guidance = "Look whether `dragoman serve` runs there, then connect anew and attach to the session."


class ServerRefused(DragomanError):
    """The server of a `Client` said no. `kind` is its word for why: unauthorized, forbidden, not_found, …"""

    category = "input"

    def __init__(self, message: str, *, kind: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.kind = kind


class Cancelled(DragomanError):
    category = "cancelled"


class OutputInvalid(RunFailed):
    """The rounds are used up and no value of the wanted type came. `problems` are those of the last one given."""

    default_guidance = "Raise max_rounds, say in the prompt what is wanted, or make the type simpler."

    def __init__(self, message: str, *, problems: Sequence[str] = (), guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.problems = tuple(problems)


class GuardFailed(RunFailed):
    """The rounds are used up and a guard still objects. `reasons` are what it said last."""

    default_guidance = "Raise max_rounds, or say in the prompt what the guard looks for."

    def __init__(self, message: str, *, reasons: Sequence[str] = (), guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.reasons = tuple(reasons)


class BudgetExceeded(LimitExceeded):
    """A budget is used up. `budget` is its name; `used` and `allowed` are in its own unit."""

    category = "agent"  # trying again would only spend it once more
    default_guidance = "Raise the budget, or give it a smaller task."

    def __init__(
        self, message: str, *, budget: str, used: float | None = None, allowed: float, guidance: str | None = None
    ) -> None:
        super().__init__(message, guidance=guidance)
        self.budget = budget
        self.used = used
        self.allowed = allowed


class BudgetNotReported(RunFailed):
    """A budget is set on a figure that the agent never reports: nobody can tell whether it is kept."""

    default_guidance = "Leave this budget out, or set seconds or tool_calls, which are counted here."

    def __init__(self, message: str, *, budget: str, guidance: str | None = None) -> None:
        super().__init__(message, guidance=guidance)
        self.budget = budget
