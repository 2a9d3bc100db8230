"""`dragoman run`: starts the agent, opens a session, sends one prompt, shows the run, and ends the agent.

Whatever happens (an error, Ctrl-C, a reader that goes away), the agent is ended before this returns.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Literal

import click

from dragoman.cli import exits
from dragoman.cli.ask import Asker
from dragoman.cli.command import print_error
from dragoman.cli.exits import Denials
from dragoman.cli.follow import Follower
from dragoman.cli.form import QuestionAsker, usual_browser
from dragoman.cli.options import (
    FILE,
    agent_options,
    env_option,
    no_journal_option,
    plain_option,
    resume_option,
    save_option,
    verbose_option,
)
from dragoman.cli.output import LOG_WIDTH, STDERR, STDIN, STDOUT, Outbox, OutputLost, terminal_width, watch_reader
from dragoman.cli.pieces import Span
from dragoman.cli.plan import AgentProcess, RunOptions, RunPlan, prepare, save_handle
from dragoman.cli.progress import Spinner
from dragoman.cli.render import Renderer
from dragoman.cli.screen import Screen, markdown_stream
from dragoman.cli.signals import Interrupts
from dragoman.cli.text import inert_json, plain, wrapped
from dragoman.errors import DragomanError
from dragoman.hub.hub import Hub
from dragoman.record.events import Error, Event, to_json
from dragoman.session.diagnostics import Diagnostic
from dragoman.session.run import Run
from dragoman.session.session import Session

EPILOG = """\b
Examples:
  dragoman run "hello"
  dragoman run -a claude --access edit-inside "Fix the failing test"
  git diff | dragoman run -a codex "Review this" > review.md
  dragoman run -a opencode --json "Explain main.py" | jq -r '.text // empty'
  dragoman run --agent-command "my-agent --acp" --deadline 5m "Tidy up"
  dragoman run -a claude --save talk.json "Read main.py"
  dragoman run --resume talk.json "Now add a test for it"

\b
Exit codes:
  0    done
  1    the agent failed: it crashed, answered with an error, refused, reached
       its token limit or said nothing
  2    bad input: an option, a file or a setting
  3    cannot start: no session could be opened
  4    login needed
  5    refused by policy: --access denied something, or nobody was there to
       ask, and the run then failed, or completed no tool call after it
  124  the deadline or the idle limit was reached
  130  interrupted by Ctrl-C: once cancels politely, twice stops at once

The agent's words go to stdout, everything else to stderr."""


@click.command(epilog=EPILOG)
@click.argument("prompt", nargs=-1)
@agent_options
@click.option("--file", metavar="PATH", multiple=True, type=FILE, help="A text file that goes with the prompt.")
@click.option("--image", metavar="PATH", multiple=True, type=FILE, help="A picture that goes with the prompt.")
@click.option("--deadline", metavar="TIME", help='End the run after so long: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End it after so long without a sign of life.")
@env_option
@save_option
@resume_option
@no_journal_option
@click.option("--json", is_flag=True, help="One JSON event a line on stdout.")
@click.option("-q", "--quiet", is_flag=True, help="The text alone: nothing on stderr but questions and errors.")
@plain_option
@verbose_option
@click.option("--thoughts/--no-thoughts", default=None, help="Show its thoughts. [default: on a terminal]")
def run(**given: Any) -> int:
    """Send a prompt to an agent and watch it work.

    PROMPT is all words together; "-", or none at all, reads it from standard input. Beside a prompt, what is piped in
    goes with it as an attachment.
    """
    return run_prompt(RunOptions(**given))


def run_prompt(options: RunOptions) -> int:
    """Run one prompt and return the exit code."""
    try:
        plan = prepare(options)
    except DragomanError as error:
        if options.json:
            sys.stdout.write(f"{error_line(error, '').decode()}\n")
        return print_error(error, opened=False, verbose=options.verbose)

    async def command() -> int:
        return await RunCommand(plan).run()

    return asyncio.run(command())


# Seconds for the last events of a run whose agent was killed; they are there within milliseconds, but whoever reads
# our output may not take them.
LAST_EVENTS = 1.0


def error_line(error: DragomanError, session_id: str) -> bytes:
    """What went wrong before a run could tell it, as an event."""
    kind = type(error).__name__
    return to_json(Error(time.time(), session_id, None, None, str(error), error.category, kind, error.guidance))


class RunCommand:
    def __init__(self, job: RunPlan) -> None:
        self._job = job
        given = job.given
        dumb = os.environ.get("TERM") == "dumb"
        notes_tty = os.isatty(STDERR) and not dumb
        width = terminal_width() or LOG_WIDTH
        shared = _same(STDOUT, STDERR)
        self._outbox = Outbox(shared=shared)
        self._screen = Screen(
            self._outbox,
            text_tty=os.isatty(STDOUT),
            notes_tty=notes_tty,
            shared=shared,
            width=None if dumb else width,
            quiet=given.quiet,
            markdown=markdown_stream(width) if os.isatty(STDOUT) and not dumb and not given.plain else None,
        )
        self._renderer = Renderer(
            cwd=job.workspace.cwd,
            width=width,
            thoughts=notes_tty if given.thoughts is None else given.thoughts,
            verbose=given.verbose,
            diffs=notes_tty,
        )
        shown = notes_tty and not given.verbose and not given.quiet
        self._starting = Spinner(self._outbox, f"starting {job.spec.name}", width=width, shown=shown)
        self._thinking = Spinner(self._outbox, f"waiting for {job.spec.name}", width=width, shown=shown)
        self._follower = Follower(self._show)
        self._asker: Asker | None = None
        question_asker: QuestionAsker | None = None
        if os.isatty(STDIN) and os.isatty(STDERR):
            self._asker = Asker(self._screen, self._floor, fd=STDIN, cwd=job.workspace.cwd, width=width)
            question_asker = QuestionAsker(self._screen, self._floor, fd=STDIN, width=width, open_page=usual_browser())
        self._denials = Denials()
        self._phase: Literal["starting", "open", "running", "closing", "ended"] = "starting"
        self._started = AgentProcess(job, on_diagnostic=self._diagnosed, on_question=question_asker)
        self._run: Run | None = None
        self._between: deque[Event] = deque()  # events of no run, not yet shown
        self._reader_gone = False
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._cancelling: asyncio.Task[None] | None = None

    async def run(self) -> int:
        watch_reader(STDOUT, self._pipe_closed)
        code = exits.AGENT_FAILED
        with Interrupts(self._politely, self._at_once) as interrupts:
            try:
                code = await self._from_start_to_end(interrupts)
            except OutputLost as lost:
                self._reader_gone = lost.closed
                if not lost.closed:
                    self._outbox.put(STDERR, f"dragoman: the output cannot be written: {lost}\n")
            except asyncio.CancelledError:
                if interrupts.code is None and not self._reader_gone:
                    raise
            await self._outbox.flush_notes()
        return interrupts.code or (exits.PIPE_CLOSED if self._reader_gone else code)

    async def _from_start_to_end(self, interrupts: Interrupts) -> int:
        failure: DragomanError | None = None
        try:
            code = await self._work()
        except DragomanError as error:
            # What is broken because the user broke it off needs no explanation.
            failure = error if interrupts.code is None else None
            code = exits.code_of_error(error, opened=self._phase != "starting", denials=self._denials)
        self._phase = "ended"
        await self._last_words(failure)
        return code

    # -- the work

    async def _work(self) -> int:
        job = self._job
        async with AsyncExitStack() as stack:
            async with self._starting:
                if job.settings.journal:
                    hub = await stack.enter_async_context(Hub(config=job.settings))
                    self._started.runtime.keep_in(hub.journal_client)
                await stack.enter_async_context(self._started.runtime)
                config = job.session_config(self._asker, self._heard)
                session = await self._started.open(config, job.handle, job.options)
                if job.handle is not None:
                    self._between.clear()  # the history, told again
            self._phase = "open"
            if session.policy_notice is not None:
                told, width = f"dragoman: {plain(session.policy_notice)}", terminal_width()
                for line in wrapped(told, width - 1) if width else [told]:
                    self._screen.line_soon((Span(line, "dim"),))
            stack.callback(self._closing)
            self._save(session)
            stack.callback(self._save, session)
            self._run = session.run(job.parts, deadline=job.settings.deadline, idle_limit=job.settings.idle_limit)
            self._phase = "running"
            async with self._thinking, self._run as run:
                await self._follower.follow(run)
                result = await run
            return exits.code_of_result(result.status, self._denials)

    def _save(self, session: Session) -> None:
        if self._job.save is not None:
            save_handle(self._job.save, session.snapshot())

    def _closing(self) -> None:
        self._phase = "closing"

    # -- showing

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """The terminal, for a question."""
        self._starting.pause()
        self._thinking.pause()
        async with self._follower.floor():
            yield

    async def _show(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self._denials.hear(event)
        if self._job.given.json:
            lines = [to_json(event) for event in (*self._between, *batch)]
            if os.isatty(STDOUT):
                lines = [*map(inert_json, lines)]
            self._between.clear()
            if lines:
                self._outbox.put(STDOUT, b"\n".join(lines) + b"\n")
            await self._outbox.flush()
        else:
            pieces = [piece for event in batch for piece in self._renderer.show(event)]
            if pieces:
                self._thinking.stop()
            await self._screen.show(pieces)

    def _heard(self, event: Event) -> None:
        """Every event at the moment it happens; those of the run come again, by way of its queue."""
        self._follower.heard(event)
        if event.run_id is None and self._job.given.json:
            self._between.append(event)

    def _diagnosed(self, diagnostic: Diagnostic) -> None:
        if self._job.given.verbose:
            self._screen.line_soon((Span(f"{diagnostic.kind}: {plain(diagnostic.text)}", "dim"),))
        elif diagnostic.kind == "stderr" and diagnostic.text.strip():
            self._starting.last_line = diagnostic.text

    async def _last_words(self, failure: DragomanError | None) -> None:
        """What is left to say once the agent is gone."""
        await self._show(())
        if self._job.given.json and failure is not None and self._run is None:
            self._outbox.put(STDOUT, error_line(failure, "") + b"\n")
        self._screen.end()
        if failure is not None:
            message = exits.message_of(failure, verbose=self._job.given.verbose, width=terminal_width())
            self._outbox.put(STDERR, message)
        if self._denials.unasked:
            self._outbox.put(STDERR, exits.advice_on_access(self._job.access, width=terminal_width()))
        await self._outbox.flush()

    # -- being stopped

    def _politely(self) -> None:
        if self._phase == "running":
            self._screen.line_soon((Span("dragoman: cancelling… press Ctrl-C again to stop at once", "bold"),))
            self._cancel_run()
        elif self._phase in ("starting", "open"):  # later the end is near, and there is nothing to ask for
            self._break_off()

    def _at_once(self) -> None:
        if self._phase == "running":
            self._cancel_run()
        self._started.kill()
        if self._phase == "starting":
            self._break_off()
        else:
            asyncio.get_running_loop().call_later(LAST_EVENTS, self._give_up)

    def _cancel_run(self) -> None:
        if self._run is not None and self._cancelling is None:
            self._cancelling = asyncio.get_running_loop().create_task(self._run.cancel(), name="dragoman interrupt")

    def _give_up(self) -> None:
        """Whoever reads our output does not take it. While the agent is being closed, that goes first."""
        if self._phase in ("running", "ended"):
            self._break_off()

    def _pipe_closed(self) -> None:
        if self._phase in ("starting", "open", "running"):  # later all may be said already
            self._reader_gone = True
            self._break_off()

    def _break_off(self) -> None:
        # Once only: a second one would break into the closing of the agent.
        if not self._task.cancelling():
            self._task.cancel()


def _same(one: int, other: int) -> bool:
    """Whether what is written to either is read as one text: the same terminal, or `2>&1`."""
    try:
        return os.path.sameopenfile(one, other)
    except OSError:  # one of them is closed
        return False
