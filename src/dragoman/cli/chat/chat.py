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
from dragoman.cli.ask import PermissionPrompt
from dragoman.cli.chat.agent import ChatAgent
from dragoman.cli.chat.commands import mentions, prompt_parts, read_command, run_command
from dragoman.cli.chat.screen import (
    Activity,
    ChatScreen,
    Line,
    PlainLine,
    input_line,
    running_output,
    status_line,
)
from dragoman.cli.command import folder, print_error, save_path
from dragoman.cli.exits import ChatSignals
from dragoman.cli.form import QuestionAsker, default_browser
from dragoman.cli.options import (
    agent_options,
    checkpoints_option,
    env_option,
    isolated_option,
    no_journal_option,
    plain_option,
    resume_option,
    save_option,
    verbose_option,
    worktree_options,
)
from dragoman.cli.output import STDIN, STDOUT, OutputLost, is_dumb
from dragoman.cli.plan import RunOptions, RunPlan, prepare
from dragoman.cli.progress import FRAME_S, Spinner
from dragoman.cli.sandbox import sandbox_lines
from dragoman.cli.screen import Follower, Span
from dragoman.cli.text import one_line, plain, wrapped
from dragoman.cli.worktree_run import begin_worktree, end_worktree
from dragoman.errors import DragomanError, InputError
from dragoman.hub.hub import Hub
from dragoman.journal.protocols import Journal
from dragoman.record.events import Error, Event
from dragoman.record.fold import SessionFold
from dragoman.session.context import ContextSource
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.options import SessionConfig
from dragoman.session.run import Run
from dragoman.session.run_queue import PromptQueue
from dragoman.session.session import Session
from dragoman.session.templates import Template

EPILOG = """\b
Examples:
  dragoman chat
  dragoman chat -a claude --access edit-inside
  dragoman chat -a codex --save talk.json
  dragoman chat --resume talk.json

\b
In the chat:
  /help        lists the commands: /model, /access, /usage, /new, /export, …
  /…           commands of the agent, prompt templates; Tab completes all
  @path        attaches a file
  Alt-Enter    a new line; so does a backslash before Enter
  Ctrl-C       cancels the run; a second one kills the agent
  Ctrl-D       leaves

Prompts that you type while the agent works are queued."""


@click.command(epilog=EPILOG)
@agent_options
@env_option
@save_option
@resume_option
@no_journal_option
@checkpoints_option
@worktree_options
@isolated_option
@plain_option
@verbose_option
@click.option(
    "--keep-terminals",
    is_flag=True,
    default=None,
    help="Leave commands that the agent started through Dragoman running when a run is cancelled.",
)
@click.option("--thoughts/--no-thoughts", default=True, help="Show the agent's thoughts. [default: yes]")
def chat(**options: Any) -> int:
    """Have a conversation with an agent, in one session.

    For a single prompt, or from a script, use `dragoman run`.
    """
    return start_chat(RunOptions(**options))


GONE = "The agent has stopped. Your next prompt, or /restart, restarts it and resumes the session."


def start_chat(options: RunOptions) -> int:
    """Run a chat until it ends and return its exit code."""
    try:
        if not os.isatty(STDIN) or not os.isatty(STDOUT):
            raise InputError(
                "a chat needs a terminal for input and output",
                guidance='Without one, send a single prompt: dragoman run "…", or dragoman run < task.md',
            )
        plan = begin_worktree(prepare(options, prompt=False))
    except DragomanError as error:
        return print_error(error, opened=False, verbose=options.verbose)

    async def command() -> int:
        return await ChatCommand(plan).run()

    try:
        return asyncio.run(command())
    finally:
        end_worktree(plan)


class Prompt(msgspec.Struct, frozen=True):
    """A prompt that was sent, or is queued, and the run that it became."""

    text: str
    attached: tuple[str, ...]
    run: Run


class ChatCommand:
    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        self._context = ContextSource(plan.settings.home)
        options, cwd, dumb = plan.options, plan.workspace.cwd, is_dumb()
        self._idle = asyncio.Event()
        self._idle.set()
        if dumb:
            self._line: Line = PlainLine(self._idle)
        else:
            self._line = input_line(
                home=plan.settings.home,
                cwd=cwd,
                session_fold=self._fold,
                live_output=self._live_output,
                queued=self._queued,
                status=self._status,
                interrupt=self._interrupted,
                templates=self._templates,
            )
        thoughts = options.thoughts is not False
        self._screen = ChatScreen(
            self._line.outbox,
            self._line.mark,
            cwd=cwd,
            dumb=dumb,
            thoughts=thoughts,
            verbose=options.verbose,
            plain=options.plain,
        )
        self._starting = Spinner(
            self._line.outbox, f"starting {plan.spec.name}", width=self.width, shown=not dumb and not options.verbose
        )
        self._follower = Follower(self._screen.show)
        self._asker = PermissionPrompt(
            self._screen.screen, self._floor, fd=STDIN, cwd=cwd, width=self.width, preview=plan.rule_preview
        )
        self._form_asker = QuestionAsker(
            self._screen.screen, self._floor, fd=STDIN, width=self.width, open_page=default_browser()
        )
        self._agent = ChatAgent(
            plan, self._config, on_event=self._on_event, on_diagnostic=self._on_diagnostic, on_question=self._form_asker
        )
        self.journal: Journal | None = None
        self._asking: set[asyncio.Task[object]] = set()
        self._phase: Literal["starting", "open", "closing"] = "starting"
        self._prompts: PromptQueue[Prompt] = PromptQueue()  # not yet shown, by the ids of their runs
        self._between: deque[Event] = deque()  # events of no run, not yet shown
        self._news = asyncio.Event()
        self._reported: DragomanError | None = None  # the error that ended the agent, once it was shown
        self._killed = False  # by two Ctrl-C: no error is shown
        self._works: Activity | None = None
        self._starts: Activity | None = None  # shown in place of `_works`
        self._command: asyncio.Task[None] | None = None
        self._cancelling: asyncio.Task[None] | None = None
        self._leaving = False
        self._warned = False  # that leaving would end a run

    def _templates(self) -> list[Template]:
        """Return the prompt templates that can be called, as they are now."""
        found = self._context.templates(self._plan.workspace)
        return [template for template in found if not template.problem]

    def _config(self, on_event: Callable[[Event], None]) -> SessionConfig:
        return self._plan.session_config(self._asker, on_event)

    # -- from start to end

    async def run(self) -> int:
        code = exits.DONE
        with ChatSignals(self._interrupted, self._agent.kill) as self._signals:
            try:
                await self._from_start_to_end()
            except DragomanError as error:
                code = exits.code_of_error(error, opened=self._agent.is_open)
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
            if self._plan.settings.journal:
                hub = await stack.enter_async_context(Hub(config=self._plan.settings))
                self.journal = hub.journal
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
            is_stored = self._plan.settings.journal and (self.session.fold.runs or self._plan.handle is not None)
            if self._agent.save is not None or is_stored:
                name = shlex.quote(plain(str(self._agent.save))) if self._agent.save else self.session.id
                self.say(Span(f"To resume: dragoman chat --resume {name}", "dim"))
        finally:
            self._phase = "closing"
            await self._agent.close()
            self._screen.screen.end()

    def _greet(self) -> None:
        where = one_line(folder(str(self._plan.workspace.cwd)), self.width - 8)
        self.say(Span(one_line(self._plan.spec.name, 40), "bold"), Span(f" in {where}", "dim"))
        if self._plan.handle is not None:
            self._screen.explain("Session resumed.")
        self._screen.explain("Type a prompt. /help lists the commands, Ctrl-D leaves.")
        if hint := self._plan.default_agent_hint():
            self._screen.explain(hint)
        if self.session.policy_notice is not None:
            self._screen.explain(plain(self.session.policy_notice))
        for line in sandbox_lines(self.session.capabilities().sandbox, self._plan.options.network, None):
            self._screen.explain(line)
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
        """Break the chat off: showing ends early only where nothing can be written any more."""
        if not showing.cancelled() and showing.exception() is not None:
            self._signals.break_off(exits.AGENT_FAILED)

    # -- entered text

    async def _entered(self, text: str) -> None:
        """Run a command or send a prompt. An error in either does not end the chat."""
        self._command = asyncio.get_running_loop().create_task(self._handle(text), name="dragoman command")
        try:
            await asyncio.wait([self._command])
        finally:
            task, self._command, self._starts = self._command, None, None
            task.cancel()
        if task.cancelled():
            self._screen.explain("Interrupted.")
        elif (error := task.exception()) is not None:
            if not isinstance(error, DragomanError):
                raise error
            self._screen.tell(error)
        await self._line.outbox.flush()

    async def _handle(self, text: str) -> None:
        self._screen.fit()
        others = [command.name for command in self.session.fold.commands]
        others += [template.name for template in self._templates()]
        if (command := read_command(text, others)) is not None:
            self._screen.echo(text)
            await run_command(self, *command)
            return
        try:
            if self._agent.is_gone and not await self._restart_agent():
                self._line.put_back(text)
                self._screen.explain("Your prompt was not sent. Press Enter to send it to the new session.")
            else:
                self._send(text)
        except BaseException:
            self._line.put_back(text)
            raise

    def _send(self, text: str) -> None:
        attached = mentions(text, self._plan.workspace.cwd)
        run = self.session.run(
            prompt_parts(text, attached, self.session.capabilities()),
            deadline=self._plan.settings.deadline,
            idle_limit=self._plan.settings.idle_limit,
        )
        self._prompts.add(run.id, Prompt(text, tuple(mention.name for mention in attached), run))
        self._idle.clear()
        self._news.set()

    async def _restart_agent(self) -> bool:
        """Restart the agent. False: the session is a new one."""
        self._starts = Activity(f"starting {one_line(self._plan.spec.name, 30)}", time.monotonic())
        lost = await self._agent.restart()
        self._reported = None
        if lost is None:
            self.say(Span("Restarted; the session is resumed.", "good"), block="end")
            return True
        self.say(
            Span("Restarted with a new session: the agent does not know the conversation so far.", "bad"), block="end"
        )
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
            raise InputError("there is no run to cancel")
        self._cancel()

    async def restart(self) -> None:
        if self.session.active is not None:
            raise InputError("a run is in progress", guidance="Cancel it first: Ctrl-C, or /cancel.")
        await self._restart_agent()

    async def begin_new(self) -> None:
        if self.session.active is not None:
            raise InputError("a run is in progress", guidance="Cancel it first: Ctrl-C, or /cancel.")
        self._starts = Activity("opening a session", time.monotonic())
        await self._agent.begin_new()
        self._reported = None
        self.say(Span("A new session. The agent knows nothing of the one before.", "good"), block="end")

    def save_as(self, text: str) -> None:
        if not text:
            raise InputError("/save needs a file", guidance="For example: /save talk.json")
        path = save_path(text, "/save")
        self._agent.save_as(path)
        self._screen.explain(f"Saved to {plain(str(path))}, now and after every run.")

    def leave(self) -> None:
        self._leaving = True

    def _wants_to_leave(self) -> None:
        if self.session.active is not None and not self._warned:
            self._warned = True
            self._note("A run is in progress: Ctrl-C cancels it, Ctrl-D again leaves.")
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
                elif (prompt := self._prompts.pop_next()) is not None:
                    await self._show_run(prompt)
            if (failure := self.session.failure) is not None and self._reported is not failure:
                if not self._killed:
                    self._screen.tell(failure)
                self._show_gone(failure)
            self._idle.set()
            await self._line.outbox.flush()

    async def _show_run(self, prompt: Prompt) -> None:
        self._warned = False
        self._works = Activity("working", time.monotonic())
        self._screen.echo(prompt.text, prompt.attached)
        try:
            await self._follower.follow(prompt.run)
            await prompt.run
        except DragomanError as error:
            self._screen.tell(error)
            if self.session.failure is not None:
                self._show_gone(self.session.failure)
        finally:
            self._works = None
        self._keep_handle()

    def _show_gone(self, failure: DragomanError) -> None:
        self._reported, self._killed = failure, False
        for line in wrapped(GONE, self.width - 1):
            self.say(Span(line, "bold"), block="end")

    def _keep_handle(self) -> None:
        try:
            self._agent.save_handle_now()
        except InputError as error:
            self._screen.tell(error)

    def _on_event(self, event: Event) -> None:
        if event.run_id is None:
            # The loss of the agent is shown by the session's failure, its mode between runs by the status line.
            if not isinstance(event, Error) and getattr(event, "kind", "") != "current_mode_update":
                self._between.append(event)
            self._news.set()

    def _on_diagnostic(self, diagnostic: Diagnostic) -> None:
        if self._plan.options.verbose:
            self._screen.screen.line_soon((Span(f"{diagnostic.kind}: {plain(diagnostic.text)}", "dim"),))
        elif diagnostic.kind == "stderr" and diagnostic.text.strip():
            self._starting.last_line = diagnostic.text

    def _note(self, text: str) -> None:
        self._screen.note(text)
        self._line.refresh()

    async def _tick(self) -> None:
        """Redraw the elapsed time while something is running."""
        while True:
            await asyncio.sleep(FRAME_S)
            if self._starts or self._works:
                self._line.refresh()

    def _queued(self) -> Sequence[str]:
        return [one_line(f"queued: {prompt.text}", self.width - 3) for prompt in self._prompts]

    def _status(self, width: int) -> Iterable[Span]:
        doing = self._starts or self._works
        access = self.session.config.access if self._agent.is_open else self._plan.access
        return status_line(self._plan.spec.name, access, self._fold(), doing, time.monotonic(), width)

    def _live_output(self, width: int) -> Sequence[str]:
        return running_output(self.session, width) if self._agent.is_open and self._works is not None else ()

    def _fold(self) -> SessionFold | None:
        return self._agent.fold

    def _active_run(self) -> Run | None:
        return self.session.active if self._agent.is_open else None

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """Hold the terminal for a question: the input line is hidden until it is answered."""
        task = asyncio.current_task()
        assert task is not None
        self._asking.add(task)
        self._starting.pause()
        try:
            async with self._follower.floor(self._active_run()), self._line.handed_over():
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
            self._note("Cancelling… press Ctrl-C again to kill the agent.")
            self._cancel()
        elif self.session.active is not None:
            self._note("Killing the agent…")
            self._killed = True
            self._agent.kill()
        elif self._command is not None:
            self._command.cancel()
        elif self._line.typed:
            self._line.clear()
        else:
            self._note("To leave: Ctrl-D or /quit.")

    def _cancel(self) -> None:
        active = self.session.active
        dropped = [prompt for prompt in self._prompts if prompt.run is not active and not prompt.run.done]
        for prompt in dropped:
            self._prompts.remove(prompt.run.id)
        if dropped:
            what = "The queued prompt was" if len(dropped) == 1 else f"{len(dropped)} queued prompts were"
            self._note(f"{what} dropped; press Up to get {'it' if len(dropped) == 1 else 'them'} back.")
        self._cancelling = asyncio.get_running_loop().create_task(self.session.cancel(), name="dragoman interrupt")
