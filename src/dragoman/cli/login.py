"""`dragoman login`: lists an agent's login methods, carries one out, and checks that a session opens.

The agent is ended before this returns. Ctrl-C gives up; while a program of the agent has the terminal, Ctrl-C goes to
that program.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click
import msgspec

from dragoman.agents.preset import load_preset
from dragoman.cli import exits
from dragoman.cli.command import print_error
from dragoman.cli.exits import Interrupts
from dragoman.cli.form import QuestionAsker, default_browser
from dragoman.cli.options import complete_agent, env_option, start_timeout_option
from dragoman.cli.output import (
    STDERR,
    STDIN,
    STDOUT,
    USUAL_WIDTH,
    Outbox,
    chosen_index,
    forget_typed,
    read_line,
    terminal_width,
)
from dragoman.cli.plan import RunOptions, RunPlan, installed_agents, prepare
from dragoman.cli.progress import Spinner
from dragoman.cli.screen import Screen, Span, Style
from dragoman.cli.text import columns, exact, one_line, plain
from dragoman.config import Config
from dragoman.errors import AuthenticationRequired, DragomanError, InputError, RequestFailed
from dragoman.session.capabilities import LoginMethod, choose, missing_variables
from dragoman.session.client import limits_of
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.login import Login

EPILOG = """\b
Examples:
  dragoman login claude                      choose a login method
  dragoman login gemini --list               list the login methods
  dragoman login gemini --method oauth-personal
  dragoman login kimi --logout

\b
Exit codes:
  0    logged in: a session could be opened
  1    the agent failed
  2    bad input: an option is wrong, or no method was chosen
  3    the agent cannot be started
  4    still not logged in
  130  interrupted by Ctrl-C

Keys are neither asked for nor stored: for an agent that takes its key from an
environment variable, the name of the variable is printed."""


@click.command(epilog=EPILOG)
@click.argument("agent", required=False, shell_complete=complete_agent)
@click.option("--method", metavar="ID", help="Login method of the agent. [default: the only one, or ask]")
@click.option("--list", "list_only", is_flag=True, help="Only list the login methods.")
@click.option("--logout", is_flag=True, help="Log out, if the agent supports it.")
@click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, instead of AGENT.")
@env_option
@start_timeout_option
def login(**options: Any) -> int:
    """Log in to AGENT (see `dragoman agents`) by one of its own methods, and check that a session opens.

    Some agents log in themselves; others run a program on this terminal.
    """
    return log_in(LoginOptions(**options))


T = TypeVar("T")


class LoginOptions(RunOptions, frozen=True, kw_only=True):
    """The options as typed."""

    method: str | None = None
    list_only: bool = False
    logout: bool = False


def log_in(options: LoginOptions) -> int:
    """Log in, and return the exit code."""
    started = False
    try:
        # A login belongs into the user's own home, from where isolated agents get it.
        plan = prepare(msgspec.structs.replace(options, isolation=False), prompt=False)
        if options.agent is None and options.agent_command is None and plan.settings.where("agent") is None:
            # The built-in default is the demo agent, which nobody wants to log in to.
            raise InputError("name the agent to log in to", guidance=_agents_hint(plan.settings))
        dialog = Dialog(options, plan)
        try:
            return asyncio.run(dialog.run())
        finally:
            started = dialog.started
    except DragomanError as error:
        return print_error(error, opened=started)


def _agents_hint(settings: Config) -> str:
    names = installed_agents(settings)
    listed = f"Found here: {', '.join(names)}. " if names else ""
    return f"{listed}For example: dragoman login {names[0] if names else 'claude'}. `dragoman agents` lists all."


class _Interrupted(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class Dialog:
    def __init__(self, options: LoginOptions, plan: RunPlan) -> None:
        self._options = options
        self._plan = plan
        self._agent_name = plan.spec.name
        self._width = terminal_width() or USUAL_WIDTH
        self._tty = os.isatty(STDIN) and os.isatty(STDERR)
        self._outbox = Outbox(shared=True)
        self._screen = Screen(
            self._outbox, text_tty=os.isatty(STDOUT), notes_tty=os.isatty(STDERR), shared=True, width=None
        )
        self._listening = False  # while True, the output of the agent is shown
        self._asking = asyncio.Lock()
        self._delayed_lines: list[str] = []  # printed by the agent while a question is shown
        self.started = False

    async def run(self) -> int:
        try:
            return await self._run()
        except _Interrupted as interrupted:
            return interrupted.code
        finally:
            self._screen.end()
            await self._outbox.flush_notes()

    async def _run(self) -> int:
        asker = QuestionAsker(self._screen, self._floor, fd=STDIN, width=self._width, open_page=default_browser())
        login = Login(
            self._plan.spec,
            limits=limits_of(self._plan.settings),
            on_diagnostic=self._on_diagnostic,
            on_question=asker if self._tty else None,
        )
        try:
            async with Spinner(self._outbox, f"starting {self._agent_name}", width=self._width, shown=self._tty):
                await self._unless_interrupted(login.__aenter__())
            self.started = True
            if self._options.list_only:
                return self._list(login.methods)
            if self._options.logout:
                await self._unless_interrupted(login.log_out())
                self._say(f"Logged out of {self._agent_name}.", "good")
                return exits.DONE
            return await self._log_in(login)
        finally:
            await login.__aexit__(*sys.exc_info())

    async def _log_in(self, login: Login) -> int:
        method = await self._choose(login)
        if method is not None:
            if method.kind == "terminal" and not (self._tty and os.isatty(STDOUT)):
                command, _ = await login.command_of(method)
                self._say(f"{method.name} needs a terminal. Run this on one, then try again:", "bad")
                self._command(command, method)
                return exits.LOGIN_NEEDED
            try:
                await self._carry_out(login, method)
            except RequestFailed as error:
                return self._still_missing(method, error)
        self._say(f"Opening a session with {self._agent_name} to check the login…", "dim")
        await self._outbox.flush_notes()
        try:
            await self._unless_interrupted(login.verify())
        except AuthenticationRequired as error:
            if method is not None and method.kind == "agent":
                self._say(f"{self._agent_name} accepted the login, but asks for it again after a restart.", "bad")
            return self._still_missing(method, error)
        if method is None:
            self._say(f"{self._agent_name} needs no login: a session could be opened.", "good")
        else:
            # Some agents open one without a login, and ask for it at the first prompt.
            self._say(f"Logged in: a session with {self._agent_name} could be opened.", "good")
        return exits.DONE

    async def _choose(self, login: Login) -> LoginMethod | None:
        """Return the method to use; None where the agent has none."""
        methods, method_id = login.methods, self._options.method
        if not methods and method_id is None:
            return None
        if method_id is None and len(methods) > 1 and self._tty:
            return await self._ask(methods)
        try:
            return choose(self._agent_name, methods, method_id)
        except InputError as error:
            lines = "".join(f"\n  {method.id}: {_describe(method)}" for method in methods)
            raise InputError(f"{error}{lines}", guidance="Choose one of them: --method ID") from None

    async def _ask(self, methods: tuple[LoginMethod, ...]) -> LoginMethod:
        self._say(f"Login methods of {self._agent_name}:", "bold")
        for number, method in enumerate(methods, start=1):
            name = one_line(method.name, self._width // 2)
            room = self._width - columns(name) - 8
            self._put(
                Span(f"  {number}", "question"),
                Span(f"  {name}"),
                Span(f"  {one_line(method.description, room)}" if method.description and room > 8 else "", "dim"),
            )
        forget_typed(STDIN)
        while True:
            await self._screen.ask((Span(f"Your choice (1-{len(methods)}): ", "question"),))
            line = await self._unless_interrupted(read_line(STDIN))
            if line is None:
                self._say("No choice made.", "bad")
                raise _Interrupted(exits.LOGIN_NEEDED)
            self._screen.answered()
            if (index := chosen_index(line, len(methods))) is not None:
                return methods[index]
            self._say(f"  Please type a number from 1 to {len(methods)}.", "dim")

    async def _carry_out(self, login: Login, method: LoginMethod) -> None:
        match method.kind:
            case "terminal":
                command, _ = await login.command_of(method)
                self._say(f"{method.name}: running the agent's own program.", "dim")
                self._command(command, method)
                self._screen.end()
                await self._outbox.flush_notes()
                try:
                    await login.carry_out(method)
                finally:
                    self._outbox.put(STDERR, "\n")  # the program may have left the cursor anywhere on the line
            case "variables":
                self._explain(login, method)
                await login.carry_out(method)
            case _:
                self._say(f"{method.name}: the agent logs you in. This may take a while; Ctrl-C cancels.", "dim")
                await self._outbox.flush_notes()
                self._listening = True
                try:
                    await self._unless_interrupted(login.carry_out(method))
                finally:
                    self._listening = False

    def _explain(self, login: Login, method: LoginMethod) -> None:
        self._say(f"{self._agent_name} takes {method.name} from the environment:", "bold")
        missing = missing_variables(method, login.environment())
        for variable in method.variables:
            state = "is not set" if variable.name in missing else "optional" if variable.optional else "is set"
            label = f"  {one_line(variable.label, 40)}" if variable.label else ""
            self._put(Span(f"  export {one_line(variable.name, 60)}=…"), Span(f"{label}  ({state})", "dim"))
        if method.link:
            self._say(f"  Get one at {method.link}")

    def _still_missing(self, method: LoginMethod | None, error: RequestFailed) -> int:
        message = str(error).partition(': {"')[0]  # without the data that came with it: the methods, known by now
        self._say(f"Not logged in: {message}", "bad")
        guidance = error.guidance if error.guidance != AuthenticationRequired.default_guidance else ""
        description = f"About this method: {method.description}" if method and method.description else ""
        for line in filter(None, (guidance, description, self._note())):
            self._say(f"  {line}")
        return exits.LOGIN_NEEDED

    def _note(self) -> str:
        preset = self._plan.spec.preset
        return load_preset(preset, self._plan.settings).note if preset is not None else ""

    def _list(self, methods: tuple[LoginMethod, ...]) -> int:
        if not methods:
            sys.stdout.write(f"{self._agent_name} has no login methods.\n")
        wide = max((len(method.id) for method in methods), default=0)
        for method in methods:
            sys.stdout.write(f"{plain(method.id):<{wide}}  {_describe(method)}\n")
        return exits.DONE

    # -- the terminal

    def _on_diagnostic(self, diagnostic: Diagnostic) -> None:
        """Show the agent's output while it logs in: an address to open, a code to type."""
        if not self._listening or diagnostic.kind not in ("stderr", "noise") or not diagnostic.text.strip():
            return
        if self._asking.locked():
            self._delayed_lines.append(diagnostic.text)
        else:
            self._screen.line_soon((Span(f"  | {exact(diagnostic.text)}"),))

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """Hold the terminal for one question of the agent at a time; nothing else is printed meanwhile."""
        try:
            async with self._asking:
                yield
        finally:
            while self._delayed_lines and not self._asking.locked():
                self._screen.line_soon((Span(f"  | {exact(self._delayed_lines.pop(0))}"),))

    def _command(self, command: list[str], method: LoginMethod) -> None:
        """Print the command whole, however long: it is to be judged, and copied."""
        variables = [f"{name}={value}" for name, value in method.env.items()]
        self._put(Span(f"  {exact(shlex.join([*(['env', *variables] if variables else []), *command]))}"))

    def _say(self, text: str, style: Style = "") -> None:
        for line in exits.lay_out(text.splitlines(), self._width).splitlines():
            self._put(Span(line, style))

    def _put(self, *spans: Span) -> None:
        self._screen.line(spans)

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for the result; Ctrl-C interrupts it."""
        task = asyncio.ensure_future(work)
        with Interrupts(lambda: _cancel(task), lambda: _cancel(task)) as interrupts:
            try:
                return await task
            except asyncio.CancelledError:
                if interrupts.code is None:
                    raise
                raise _Interrupted(interrupts.code) from None


def _cancel(task: asyncio.Future[Any]) -> None:
    task.cancel()


def _describe(method: LoginMethod) -> str:
    kinds = {"agent": "", "terminal": " (on a terminal)", "variables": " (from the environment)"}
    description = f": {method.description}" if method.description else ""
    return " ".join(plain(f"{method.name}{kinds.get(method.kind, ' (of an unknown kind)')}{description}").split())
