"""`dragoman login`: lists an agent's login methods, carries one out, and checks that a session opens.

The agent is ended before this returns. Ctrl-C gives up; while a program of the agent has the terminal, Ctrl-C goes to
that program.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import sys
import textwrap
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import click
import msgspec

from dragoman.agents.preset import load_preset
from dragoman.cli import exits, plan
from dragoman.cli.command import print_error
from dragoman.cli.form import QuestionAsker, usual_browser
from dragoman.cli.output import STDERR, STDIN, STDOUT, USUAL_WIDTH, Outbox, terminal_width
from dragoman.cli.pieces import Span, Style
from dragoman.cli.progress import Spinner
from dragoman.cli.screen import Screen
from dragoman.cli.signals import Interrupts
from dragoman.cli.stdin import chosen, forget_typed, read_line
from dragoman.cli.text import columns, exact, one_line, plain
from dragoman.errors import AuthenticationRequired, DragomanError, InputError, RequestFailed
from dragoman.session.client import limits_of
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.login import Login
from dragoman.session.login_method import LoginMethod, choose, missing_variables

EPILOG = """\b
Examples:
  dragoman login claude                      choose from the agent's own ways
  dragoman login gemini --list               which there are
  dragoman login gemini --method oauth-personal
  dragoman login kimi --logout

\b
Exit codes:
  0    logged in: a session could be opened
  1    the agent failed
  2    bad input: an option, or several ways and none was chosen
  3    the agent cannot be started
  4    still not logged in
  130  interrupted by Ctrl-C

Keys are never asked for and never kept: where an agent takes one from the environment, you are told which to set."""


@click.command(epilog=EPILOG)
@click.argument("agent", required=False)
@click.option("--method", metavar="ID", help="Which of the agent's ways to log in. [default: its only one, or asks]")
@click.option("--list", "list_only", is_flag=True, help="Only tell which ways there are.")
@click.option("--logout", is_flag=True, help="Log out instead, where the agent can.")
@click.option("--agent-command", metavar="COMMAND", help="Any command line that speaks ACP, in place of a preset.")
@click.option("--env", metavar="NAME=VALUE", multiple=True, help="A variable for the agent's environment.")
@click.option("--start-timeout", metavar="TIME", help="How long the agent may take to start. [default: 60s]")
def login(**given: Any) -> int:
    """Log in to AGENT (as `dragoman agents` lists them) by one of its own methods, and see whether it helped.

    What the agent does itself, it is asked to do; what it does on a terminal, it gets this one for.
    """
    return log_in(LoginOptions(**given))


T = TypeVar("T")


class LoginOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options as they were typed."""

    agent: str | None = None
    method: str | None = None
    list_only: bool = False
    logout: bool = False
    agent_command: str | None = None
    env: tuple[str, ...] = ()
    start_timeout: str | None = None


def log_in(given: LoginOptions) -> int:
    """Does it, and returns the exit code. Raises nothing that the user could have caused."""
    started = False
    try:
        work = plan.prepare(
            plan.RunOptions(
                agent=given.agent,
                agent_command=given.agent_command,
                env=given.env,
                start_timeout=given.start_timeout,
            ),
            prompt=False,
        )
        dialog = Dialog(given, work)
        try:
            return asyncio.run(dialog.run())
        finally:
            started = dialog.started
    except DragomanError as error:
        return print_error(error, opened=started)


class _Interrupted(Exception):
    def __init__(self, code: int) -> None:
        self.code = code


class Dialog:
    def __init__(self, given: LoginOptions, work: plan.RunPlan) -> None:
        self._given = given
        self._job = work
        self._name = work.spec.name
        self._width = terminal_width() or USUAL_WIDTH
        self._tty = os.isatty(STDIN) and os.isatty(STDERR)
        self._outbox = Outbox(shared=True)
        self._screen = Screen(
            self._outbox, text_tty=os.isatty(STDOUT), notes_tty=os.isatty(STDERR), shared=True, width=None
        )
        self._listening = False  # what the agent prints is shown
        self._asking = asyncio.Lock()
        self._held: list[str] = []  # printed while a question stands there
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
        asker = QuestionAsker(self._screen, self._floor, fd=STDIN, width=self._width, open_page=usual_browser())
        login = Login(
            self._job.spec,
            limits=limits_of(self._job.settings),
            on_diagnostic=self._diagnosed,
            on_question=asker if self._tty else None,
        )
        try:
            async with Spinner(self._outbox, f"starting {self._name}", width=self._width, shown=self._tty):
                await self._unless_interrupted(login.__aenter__())
            self.started = True
            if self._given.list_only:
                return self._list(login.methods)
            if self._given.logout:
                await self._unless_interrupted(login.log_out())
                self._say(f"Logged out of {self._name}.", "good")
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
            except RequestFailed as problem:
                return self._still_missing(method, problem)
        self._say(f"Opening a session with {self._name}, to see whether it works…", "dim")
        await self._outbox.flush_notes()
        try:
            await self._unless_interrupted(login.verify())
        except AuthenticationRequired as problem:
            if method is not None and method.kind == "agent":
                self._say(f"{self._name} took the login, but a new process of it wants one again.", "bad")
            return self._still_missing(method, problem)
        if method is None:
            self._say(f"{self._name} offers no way to log in, and opened a session without.", "good")
        else:
            # Some open one without a login, and want it when they are prompted.
            self._say(f"Logged in, as far as can be seen: a session with {self._name} could be opened.", "good")
        return exits.DONE

    async def _choose(self, login: Login) -> LoginMethod | None:
        """None where there is nothing to choose from."""
        methods, wanted = login.methods, self._given.method
        if not methods and wanted is None:
            return None
        if wanted is None and len(methods) > 1 and self._tty:
            return await self._ask(methods)
        try:
            return choose(self._name, methods, wanted)
        except InputError as problem:
            lines = "".join(f"\n  {method.id}: {_told(method)}" for method in methods)
            raise InputError(f"{problem}{lines}", guidance="Choose one of them: --method ID") from None

    async def _ask(self, methods: tuple[LoginMethod, ...]) -> LoginMethod:
        self._say(f"{self._name} offers these ways to log in:", "bold")
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
                self._say("No choice: nothing was done.", "bad")
                raise _Interrupted(exits.LOGIN_NEEDED)
            self._screen.answered()
            if (index := chosen(line, len(methods))) is not None:
                return methods[index]
            self._say(f"  Please type a number from 1 to {len(methods)}.", "dim")

    async def _carry_out(self, login: Login, method: LoginMethod) -> None:
        match method.kind:
            case "terminal":
                command, _ = await login.command_of(method)
                self._say(f"{method.name}: the agent's own program takes over.", "dim")
                self._command(command, method)
                self._screen.end()
                await self._outbox.flush_notes()
                try:
                    await login.carry_out(method)
                finally:
                    self._outbox.put(STDERR, "\n")  # nobody knows where on the line it left the cursor
            case "variables":
                self._explain(login, method)
                await login.carry_out(method)
            case _:
                self._say(f"{method.name}: the agent logs you in. This may take a while; Ctrl-C gives up.", "dim")
                await self._outbox.flush_notes()
                self._listening = True
                try:
                    await self._unless_interrupted(login.carry_out(method))
                finally:
                    self._listening = False

    def _explain(self, login: Login, method: LoginMethod) -> None:
        self._say(f"{self._name} takes {method.name} from the environment:", "bold")
        missing = missing_variables(method, login.environment())
        for variable in method.variables:
            state = "is not set" if variable.name in missing else "optional" if variable.optional else "is set"
            label = f"  {one_line(variable.label, 40)}" if variable.label else ""
            self._put(Span(f"  export {one_line(variable.name, 60)}=…"), Span(f"{label}  ({state})", "dim"))
        if method.link:
            self._say(f"  Get one at {method.link}")

    def _still_missing(self, method: LoginMethod | None, problem: RequestFailed) -> int:
        told = str(problem).partition(': {"')[0]  # the data that came with it: the methods, known by now
        self._say(f"Not logged in: {told}", "bad")
        guidance = problem.guidance if problem.guidance != AuthenticationRequired.default_guidance else ""
        description = f"It says of this way: {method.description}" if method and method.description else ""
        for line in filter(None, (guidance, description, self._note())):
            self._say(f"  {line}")
        return exits.LOGIN_NEEDED

    def _note(self) -> str:
        preset = self._job.spec.preset
        return load_preset(preset, self._job.settings).note if preset is not None else ""

    def _list(self, methods: tuple[LoginMethod, ...]) -> int:
        if not methods:
            sys.stdout.write(f"{self._name} offers no way to log in.\n")
        wide = max((len(method.id) for method in methods), default=0)
        for method in methods:
            sys.stdout.write(f"{plain(method.id):<{wide}}  {_told(method)}\n")
        return exits.DONE

    # -- the terminal

    def _diagnosed(self, diagnostic: Diagnostic) -> None:
        """What it prints while it logs in is for the person: an address to open, a code to type."""
        if not self._listening or diagnostic.kind not in ("stderr", "noise") or not diagnostic.text.strip():
            return
        if self._asking.locked():
            self._held.append(diagnostic.text)
        else:
            self._screen.line_soon((Span(f"  | {exact(diagnostic.text)}"),))

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """The terminal, for a question of the agent's: one at a time, and nothing else is printed meanwhile."""
        try:
            async with self._asking:
                yield
        finally:
            while self._held and not self._asking.locked():
                self._screen.line_soon((Span(f"  | {exact(self._held.pop(0))}"),))

    def _command(self, command: list[str], method: LoginMethod) -> None:
        """Whole, however long: it is there to be judged, and to be copied."""
        variables = [f"{name}={value}" for name, value in method.env.items()]
        self._put(Span(f"  {exact(shlex.join([*(['env', *variables] if variables else []), *command]))}"))

    def _say(self, text: str, style: Style = "") -> None:
        indent = " " * (len(text) - len(text.lstrip()))
        for line in plain(text).splitlines():
            # An address stays whole, to be copied.
            for part in textwrap.wrap(
                line, self._width - 1, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
            ):
                self._put(Span(part, style))

    def _put(self, *spans: Span) -> None:
        self._screen.line(spans)

    async def _unless_interrupted(self, work: Coroutine[Any, Any, T]) -> T:
        """What it brings; Ctrl-C breaks it off."""
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


def _told(method: LoginMethod) -> str:
    kinds = {"agent": "", "terminal": " (on a terminal)", "variables": " (from the environment)"}
    description = f": {method.description}" if method.description else ""
    return " ".join(plain(f"{method.name}{kinds.get(method.kind, ' (of an unknown kind)')}{description}").split())
