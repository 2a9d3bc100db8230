"""`dragoman chat`: prompts in, runs shown one after the other, in one session.

Whatever happens (a crash of the agent, Ctrl-C, a terminal that goes away), the agent is ended before this returns, and
the terminal's settings are restored. A crash ends a run, not the chat: the agent can be started again.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import click
import msgspec

from dragoman.cli import exits
from dragoman.cli.ask import Asker
from dragoman.cli.chat.agent import ChatAgent
from dragoman.cli.chat.commands import carry_out, is_command, read_command
from dragoman.cli.chat.input import input_line, is_dumb, plain_line
from dragoman.cli.chat.mentions import mentions, prompt_parts
from dragoman.cli.chat.screen import ChatScreen, Doing, status_line
from dragoman.cli.command import print_error
from dragoman.cli.follow import Follower
from dragoman.cli.form import QuestionAsker, usual_browser
from dragoman.cli.options import (
    agent_options,
    env_option,
    no_journal_option,
    plain_option,
    resume_option,
    save_option,
    verbose_option,
)
from dragoman.cli.output import STDIN, STDOUT, OutputLost
from dragoman.cli.pieces import Span
from dragoman.cli.plan import RunOptions, RunPlan, prepare, save_path
from dragoman.cli.progress import FRAME_S, Spinner
from dragoman.cli.signals import ChatSignals
from dragoman.cli.text import one_line, plain
from dragoman.errors import DragomanError, InputError
from dragoman.hub.hub import Hub
from dragoman.record.events import Error, Event
from dragoman.record.fold import SessionFold
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.run import Run
from dragoman.session.session import Session
from dragoman.session.spec import SessionConfig

EPILOG = """\b
Examples:
  dragoman chat
  dragoman chat -a claude --access edit-inside
  dragoman chat -a codex --save talk.json
  dragoman chat --resume talk.json

\b
In the chat:
  /…           the agent's own commands; Tab completes them
  :help        ours: :model, :mode, :option, :cancel, :restart, :save, :quit
  @path        sends a file along
  Alt-Enter    a new line; so does a backslash before Enter
  Ctrl-C       cancels the run; a second one ends the agent
  Ctrl-D       leaves

What you type while the agent works is queued, and sent when it has finished."""


@click.command(epilog=EPILOG)
@agent_options
@env_option
@save_option
@resume_option
@no_journal_option
@plain_option
@verbose_option
@click.option("--thoughts/--no-thoughts", default=True, help="Show its thoughts. [default: yes]")
def chat(**given: Any) -> int:
    """Talk with an agent, prompt after prompt, in one session.

    For a single prompt, or from a script, use `dragoman run`.
    """
    return start_chat(RunOptions(**given))


GONE = "The agent is gone. Your next prompt, or :restart, starts it again and goes on with the session."


def start_chat(options: RunOptions) -> int:
    """Run a chat until it ends and return its exit code."""
    try:
        if not os.isatty(STDIN) or not os.isatty(STDOUT):
            raise InputError(
                "a chat needs a terminal for input and output",
                guidance='Without one, send a single prompt: dragoman run "…", or dragoman run < task.md',
            )
        plan = prepare(options, prompt=False)
    except DragomanError as error:
        return print_error(error, opened=False, verbose=options.verbose)

    async def command() -> int:
        return await ChatCommand(plan).run()

    return asyncio.run(command())


class Prompt(msgspec.Struct, frozen=True, eq=False):
    """A prompt that was sent, or is queued, and the run that it became."""

    text: str
    attached: tuple[str, ...]
    run: Run


class ChatCommand:
    def __init__(self, job: RunPlan) -> None:
        self._job = job
        given, cwd, dumb = job.given, job.workspace.cwd, is_dumb()
        self._idle = asyncio.Event()
        self._idle.set()
        if dumb:
            self._line = plain_line(self._idle)
        else:
            self._line = input_line(
                home=job.settings.home,
                cwd=cwd,
                known=self._fold,
                queued=self._queued,
                status=self._status,
                interrupt=self._interrupted,
            )
        thoughts = given.thoughts is not False
        self._screen = ChatScreen(
            self._line.outbox,
            self._line.mark,
            cwd=cwd,
            dumb=dumb,
            thoughts=thoughts,
            verbose=given.verbose,
            plain=given.plain,
        )
        self._starting = Spinner(
            self._line.outbox, f"starting {job.spec.name}", width=self.width, shown=not dumb and not given.verbose
        )
        self._follower = Follower(self._screen.show)
        self._asker = Asker(self._screen.screen, self._floor, fd=STDIN, cwd=cwd, width=self.width)
        self._form_asker = QuestionAsker(
            self._screen.screen, self._floor, fd=STDIN, width=self.width, open_page=usual_browser()
        )
        self._agent = ChatAgent(
            job, self._config, heard=self._heard, diagnosed=self._diagnosed, on_question=self._form_asker
        )
        self._asking: set[asyncio.Task[object]] = set()
        self._phase: Literal["starting", "open", "closing"] = "starting"
        self._prompts: deque[Prompt] = deque()  # not yet shown
        self._between: deque[Event] = deque()  # events of no run, not yet shown
        self._news = asyncio.Event()
        self._told_of: DragomanError | None = None  # why the agent is gone, once that was said
        self._killed = False  # by two Ctrl-C: nobody needs to be told why
        self._works: Doing | None = None
        self._starts: Doing | None = None  # ahead of the other: nothing is worked on by an agent that is not there
        self._command: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._leaving = False
        self._warned = False  # that leaving would end a run

    def _config(self, heard: Callable[[Event], None]) -> SessionConfig:
        return self._job.session_config(self._asker, heard)

    # -- from start to end

    async def run(self) -> int:
        code = exits.DONE
        with ChatSignals(self._interrupted, self._agent.kill) as self._signals:
            try:
                await self._from_start_to_end()
            except DragomanError as error:
                code = exits.code_of_error(error, opened=self._agent.opened)
                self._screen.tell(error)
            except OutputLost:
                code = exits.AGENT_FAILED
            except asyncio.CancelledError:
                if self._signals.code is None:
                    raise
            await self._line.outbox.flush_notes()
        return self._signals.code or code

    async def _from_start_to_end(self) -> None:
        async with AsyncExitStack() as stack:
            if self._job.settings.journal:
                hub = await stack.enter_async_context(Hub(config=self._job.settings))
                self._agent.keep_in(hub.journal_client)
            await self._with_the_agent()

    async def _with_the_agent(self) -> None:
        try:
            async with self._starting:
                await self._agent.start()
            self._phase = "open"
            self._greet()
            await self._talk()
            self._keep_handle()
            if self._agent.save is not None or self._job.settings.journal:
                name = shlex.quote(plain(str(self._agent.save))) if self._agent.save else self.session.id
                self.say(Span(f"Go on with it: dragoman chat --resume {name}", "dim"))
        finally:
            self._phase = "closing"
            await self._agent.close()
            self._screen.screen.end()

    def _greet(self) -> None:
        where = one_line(_at_home(str(self._job.workspace.cwd)), self.width - 8)
        self.say(Span(one_line(self._job.spec.name, 40), "bold"), Span(f" in {where}", "dim"))
        if self._job.handle is not None:
            self._screen.explain("The session goes on where it was left.")
        self._screen.explain("What shall it do? :help tells what you can type, Ctrl-D leaves.")
        if self.session.policy_notice is not None:
            self._screen.explain(plain(self.session.policy_notice))
        self._screen.remind(self.session.fold)

    async def _talk(self) -> None:
        loop = asyncio.get_running_loop()
        async with self._line:
            showing = loop.create_task(self._show_all(), name="dragoman shows")
            showing.add_done_callback(self._showing_ended)
            ticking = loop.create_task(self._tick(), name="dragoman ticks")
            try:
                while not self._leaving:
                    text = await self._line.next()
                    if text is None:
                        self._wants_to_leave()
                    else:
                        self._warned = False
                        await self._entered(text)
            finally:
                ticking.cancel()
                showing.cancel()
                await asyncio.wait([showing])
                # Before the input line goes: a question gives the terminal back to it.
                for task in (questions := list(self._asking)):
                    task.cancel()
                if questions:
                    await asyncio.wait(questions)

    def _showing_ended(self, showing: asyncio.Task[None]) -> None:
        """It never does while we talk, unless nothing can be shown any more."""
        if not showing.cancelled() and showing.exception() is not None:
            self._signals.break_off(exits.AGENT_FAILED)

    # -- what is entered

    async def _entered(self, text: str) -> None:
        """A command or a prompt. Neither may end the chat."""
        self._command = asyncio.get_running_loop().create_task(self._do(text), name="dragoman command")
        try:
            await asyncio.wait([self._command])
        finally:
            task, self._command, self._starts = self._command, None, None
            task.cancel()
        if task.cancelled():
            self._screen.explain("broken off")
        elif (problem := task.exception()) is not None:
            if not isinstance(problem, DragomanError):
                raise problem
            self._screen.tell(problem)
        await self._line.outbox.flush()

    async def _do(self, text: str) -> None:
        self._screen.fit()
        if is_command(text):
            self._screen.echo(text)
            await carry_out(self, *read_command(text))
            return
        try:
            if self._agent.gone and not await self._brought_back():
                self._line.put_back(text)
                self._screen.explain("Your prompt was not sent: press Enter to send it to the new session.")
            else:
                self._send(text)
        except BaseException:
            self._line.put_back(text)
            raise

    def _send(self, text: str) -> None:
        found = mentions(text, self._job.workspace.cwd)
        run = self.session.run(
            prompt_parts(text, found, self.session.capabilities()),
            deadline=self._job.settings.deadline,
            idle_limit=self._job.settings.idle_limit,
        )
        self._prompts.append(Prompt(text, tuple(mention.name for mention in found), run))
        self._idle.clear()
        self._news.set()

    async def _brought_back(self) -> bool:
        """Starts the agent again. False: the session is a new one."""
        self._starts = Doing(f"starting {one_line(self._job.spec.name, 30)}", time.monotonic())
        lost = await self._agent.restart()
        self._told_of = None
        if lost is None:
            self.say(Span("Started again; the session goes on.", "good"), block="end")
            return True
        self.say(Span("Started again as a new session: it knows nothing of what was said.", "bad"), block="end")
        self._screen.explain(one_line(str(lost), 400))
        return False

    # -- for the commands

    @property
    def session(self) -> Session:
        return self._agent.session

    @property
    def width(self) -> int:
        return self._screen.width

    def say(self, *spans: Span, block: Literal["line", "end"] = "line") -> None:
        self._screen.say(*spans, block=block)

    def cancel(self) -> None:
        if self.session.active is None:
            raise InputError("nothing runs that could be cancelled")
        self._cancel()

    async def restart(self) -> None:
        if self.session.active is not None:
            raise InputError("a run is going on", guidance="Cancel it first: Ctrl-C, or :cancel.")
        await self._brought_back()

    def save_as(self, text: str) -> None:
        if not text:
            raise InputError(":save wants a file", guidance="For example: :save talk.json")
        path = save_path(text, ":save")
        self._agent.save_as(path)
        self._screen.explain(f"Saved, now and after every run: {plain(str(path))}")

    def leave(self) -> None:
        self._leaving = True

    def _wants_to_leave(self) -> None:
        if self.session.active is not None and not self._warned:
            self._warned = True
            self._note("A run is going on: Ctrl-C cancels it, Ctrl-D again leaves all the same.")
        else:
            self._leaving = True

    # -- showing

    async def _show_all(self) -> None:
        while True:
            await self._news.wait()
            self._news.clear()
            while self._between or self._prompts:
                if self._between:
                    batch = list(self._between)
                    self._between.clear()
                    await self._screen.show(batch)
                else:
                    await self._show_run(self._prompts.popleft())
            if (failure := self.session.failure) is not None and self._told_of is not failure:
                if not self._killed:
                    self._screen.tell(failure)
                self._gone(failure)
            self._idle.set()
            await self._line.outbox.flush()

    async def _show_run(self, prompt: Prompt) -> None:
        self._warned = False
        self._works = Doing("working", time.monotonic())
        self._screen.echo(prompt.text, prompt.attached)
        try:
            await self._follower.follow(prompt.run)
            await prompt.run
        except DragomanError as error:
            self._screen.tell(error)
            if self.session.failure is not None:
                self._gone(self.session.failure)
        finally:
            self._works = None
        self._keep_handle()

    def _gone(self, failure: DragomanError) -> None:
        self._told_of, self._killed = failure, False
        self._screen.block(Span(""), GONE, "bold")

    def _keep_handle(self) -> None:
        try:
            self._agent.keep_handle()
        except InputError as problem:
            self._screen.tell(problem)

    def _heard(self, event: Event) -> None:
        self._follower.heard(event)
        if event.run_id is None:
            # The loss of the agent is told from the session's failure; its mode between runs, by the status line.
            if not isinstance(event, Error) and getattr(event, "kind", "") != "current_mode_update":
                self._between.append(event)
            self._news.set()

    def _diagnosed(self, diagnostic: Diagnostic) -> None:
        if self._job.given.verbose:
            self._screen.screen.line_soon((Span(f"{diagnostic.kind}: {plain(diagnostic.text)}", "dim"),))
        elif diagnostic.kind == "stderr" and diagnostic.text.strip():
            self._starting.last_line = diagnostic.text

    def _note(self, text: str) -> None:
        self._screen.note(text)
        self._line.refresh()

    async def _tick(self) -> None:
        """Time passes visibly while something goes on."""
        while True:
            await asyncio.sleep(FRAME_S)
            if self._starts or self._works:
                self._line.refresh()

    def _queued(self) -> Sequence[str]:
        return [one_line(f"queued: {prompt.text}", self.width - 3) for prompt in self._prompts]

    def _status(self, width: int) -> Iterable[Span]:
        doing = self._starts or self._works
        return status_line(self._job.spec.name, self._job.access, self._fold(), doing, time.monotonic(), width)

    def _fold(self) -> SessionFold | None:
        return self._agent.fold

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """The terminal, for a question: the input line steps aside until it is answered."""
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        self._starting.pause()
        try:
            async with self._follower.floor(), self._line.handed_over():
                self._asker.width = self._form_asker.width = self._screen.fit()
                try:
                    yield
                finally:
                    self._screen.screen.end()  # a question that was withdrawn has left its line open
        finally:
            self._asking.discard(task)

    # -- being stopped

    def _interrupted(self) -> None:
        if self._phase == "starting":
            self._signals.break_off(exits.INTERRUPTED)
        elif self._phase == "closing":
            self._agent.kill()
        elif self.session.active is not None and not self.session.active.cancelling:
            self._note("cancelling… press Ctrl-C again to end the agent")
            self._cancel()
        elif self.session.active is not None:
            self._note("ending the agent…")
            self._killed = True
            self._agent.kill()
        elif self._command is not None:
            self._command.cancel()
        elif self._line.typed:
            self._line.clear()
        else:
            self._note("Ctrl-D leaves, and so does :quit.")

    def _cancel(self) -> None:
        active = self.session.active
        dropped = [prompt for prompt in self._prompts if prompt.run is not active and not prompt.run.done]
        self._prompts = deque(prompt for prompt in self._prompts if prompt not in dropped)
        if dropped:
            what = "the queued prompt was" if len(dropped) == 1 else f"{len(dropped)} queued prompts were"
            self._note(f"{what} dropped; Up brings {'it' if len(dropped) == 1 else 'them'} back")
        self._cancelling = asyncio.get_running_loop().create_task(self.session.cancel(), name="dragoman interrupt")


def _at_home(path: str) -> str:
    home = os.path.expanduser("~")
    return f"~{path.removeprefix(home)}" if path == home or path.startswith(f"{home}/") else path
