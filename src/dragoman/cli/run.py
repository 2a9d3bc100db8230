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
from dragoman.cli.ask import PermissionPrompt
from dragoman.cli.command import print_error
from dragoman.cli.exits import Denials, Interrupts
from dragoman.cli.form import QuestionAsker, default_browser
from dragoman.cli.options import (
    FILE,
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
from dragoman.cli.output import LOG_WIDTH, STDERR, STDIN, STDOUT, Outbox, OutputLost, terminal_width, watch_reader
from dragoman.cli.plan import AgentProcess, RunOptions, RunPlan, prepare, save_handle
from dragoman.cli.progress import Spinner
from dragoman.cli.render import Renderer
from dragoman.cli.sandbox import sandbox_lines
from dragoman.cli.screen import Follower, Screen, Span, markdown_stream
from dragoman.cli.text import inert_json, plain, wrapped
from dragoman.cli.worktree_run import begin_worktree, end_worktree
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
  dragoman run -a claude --skill review "Look at the last commit"
  dragoman run -a claude --save talk.json "Read main.py"
  dragoman run -a claude --sandbox --network off "Fix the failing test"
  dragoman run --resume talk.json "Now add a test for it"

\b
Exit codes:
  0    done
  1    the agent failed: it crashed, returned an error, refused, reached its
       token limit or said nothing
  2    bad input: an option, a file or a setting
  3    cannot start: no session could be opened
  4    login needed
  5    denied by policy: --access denied something, or nobody could be asked,
       and the run then failed, or completed no tool call after it
  124  the deadline or the idle limit was reached
  130  interrupted by Ctrl-C: once cancels, twice kills the agent

The agent's text goes to stdout, everything else to stderr. On a terminal its
Markdown is rendered."""


@click.command(epilog=EPILOG)
@click.argument("prompt", nargs=-1)
@agent_options
@click.option("--file", metavar="PATH", multiple=True, type=FILE, help="Attach a text file; may be repeated.")
@click.option("--image", metavar="PATH", multiple=True, type=FILE, help="Attach an image; may be repeated.")
@click.option("--deadline", metavar="TIME", help='Time limit for the run: "90s", "5m", "1h30m".')
@click.option("--idle-limit", metavar="TIME", help="End the run after this time without activity.")
@env_option
@save_option
@resume_option
@no_journal_option
@checkpoints_option
@worktree_options
@isolated_option
@click.option("--json", is_flag=True, help="Print one JSON event per line.")
@click.option("-q", "--quiet", is_flag=True, help="Print only the agent's text, questions and errors.")
@plain_option
@verbose_option
@click.option("--thoughts/--no-thoughts", default=None, help="Show the agent's thoughts. [default: on a terminal]")
def run(**options: Any) -> int:
    """Send a prompt to an agent and watch it work.

    All words together are the PROMPT; "-", or no prompt, reads it from standard input. Input that is piped in beside a
    prompt is attached to it.
    """
    return run_prompt(RunOptions(**options))


def run_prompt(options: RunOptions) -> int:
    """Run one prompt and return the exit code."""
    try:
        plan = begin_worktree(prepare(options))
    except DragomanError as error:
        if options.json:
            sys.stdout.write(f"{error_line(error, '').decode()}\n")
        return print_error(error, opened=False, verbose=options.verbose)

    async def command() -> int:
        return await RunCommand(plan).run()

    try:
        return asyncio.run(command())
    finally:
        end_worktree(plan)


# Seconds for the last events of a run whose agent was killed. They come within milliseconds, but the reader of our
# output may not take them.
LAST_EVENTS_S = 1.0


def error_line(error: DragomanError, session_id: str) -> bytes:
    """Encode an error event, for an error before the run."""
    kind = type(error).__name__
    return to_json(Error(time.time(), session_id, None, None, str(error), error.category, kind, error.guidance))


class RunCommand:
    def __init__(self, plan: RunPlan) -> None:
        self._plan = plan
        options = plan.options
        dumb = os.environ.get("TERM") == "dumb"
        notes_tty = os.isatty(STDERR) and not dumb
        width = terminal_width() or LOG_WIDTH
        shared = _is_same_file(STDOUT, STDERR)
        self._outbox = Outbox(shared=shared)
        self._screen = Screen(
            self._outbox,
            text_tty=os.isatty(STDOUT),
            notes_tty=notes_tty,
            shared=shared,
            width=None if dumb else width,
            quiet=options.quiet,
            markdown=markdown_stream(width) if os.isatty(STDOUT) and not dumb and not options.plain else None,
        )
        self._renderer = Renderer(
            cwd=plan.workspace.cwd,
            width=width,
            thoughts=notes_tty if options.thoughts is None else options.thoughts,
            verbose=options.verbose,
            diffs=notes_tty,
        )
        shown = notes_tty and not options.verbose and not options.quiet
        self._shows_hints = notes_tty and not options.quiet and not options.json
        self._starting = Spinner(self._outbox, f"starting {plan.spec.name}", width=width, shown=shown)
        self._thinking = Spinner(self._outbox, self._waiting_for, width=width, shown=shown)
        self._follower = Follower(self._show)
        self._asker: PermissionPrompt | None = None
        question_asker: QuestionAsker | None = None
        if os.isatty(STDIN) and os.isatty(STDERR):
            self._asker = PermissionPrompt(
                self._screen,
                self._floor,
                fd=STDIN,
                cwd=plan.workspace.cwd,
                width=width,
                preview=plan.rule_preview,
            )
            question_asker = QuestionAsker(
                self._screen, self._floor, fd=STDIN, width=width, open_page=default_browser()
            )
        self._denials = Denials()
        self._phase: Literal["starting", "open", "running", "closing", "ended"] = "starting"
        self._process = AgentProcess(plan, on_diagnostic=self._on_diagnostic, on_question=question_asker)
        self._session: Session | None = None
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
        with Interrupts(self._on_interrupt, self._on_kill) as interrupts:
            try:
                code = await self._run_to_end(interrupts)
            except OutputLost as lost:
                self._reader_gone = lost.closed
                if not lost.closed:
                    self._outbox.put(STDERR, f"dragoman: the output cannot be written: {lost}\n")
            except asyncio.CancelledError:
                if interrupts.code is None and not self._reader_gone:
                    raise
            await self._outbox.flush_notes()
        return interrupts.code or (exits.PIPE_CLOSED if self._reader_gone else code)

    async def _run_to_end(self, interrupts: Interrupts) -> int:
        failure: DragomanError | None = None
        try:
            code = await self._work()
        except DragomanError as error:
            # An error that the user caused by interrupting needs no explanation.
            failure = error if interrupts.code is None else None
            code = exits.code_of_error(error, opened=self._phase != "starting", denials=self._denials)
        self._phase = "ended"
        await self._write_end(failure)
        return code

    # -- the work

    async def _work(self) -> int:
        plan = self._plan
        async with AsyncExitStack() as stack:
            async with self._starting:
                if plan.settings.journal:
                    hub = await stack.enter_async_context(Hub(config=plan.settings))
                    self._process.runtime.keep_in(hub.journal_client)
                await stack.enter_async_context(self._process.runtime)
                config = plan.session_config(self._asker, self._on_event)
                self._session = session = await self._process.open(config, plan.handle, plan.agent_options)
                if plan.handle is not None:
                    self._between.clear()  # the replayed history
            self._phase = "open"
            if session.policy_notice is not None:
                notice, width = f"dragoman: {plain(session.policy_notice)}", terminal_width()
                for line in wrapped(notice, width - 1) if width else [notice]:
                    self._screen.line_soon((Span(line, "dim"),))
            if not plan.options.quiet:
                for line in sandbox_lines(session.capabilities().sandbox, plan.options.network, terminal_width()):
                    self._screen.line_soon((Span(line, "dim"),))
            stack.callback(self._closing)
            self._save(session)
            stack.callback(self._save, session)
            self._run = session.run(plan.parts, deadline=plan.settings.deadline, idle_limit=plan.settings.idle_limit)
            self._phase = "running"
            async with self._thinking, self._run as run:
                await self._follower.follow(run)
                result = await run
            return exits.code_of_result(result.status, self._denials)

    def _save(self, session: Session) -> None:
        if self._plan.save is not None:
            save_handle(self._plan.save, session.snapshot())

    def _closing(self) -> None:
        self._phase = "closing"

    # -- showing

    def _waiting_for(self) -> str:
        """Say what takes so long: before the first run in a large folder, all its files are recorded."""
        if self._session is not None and self._session.is_recording_files:
            return "recording the files, so that the run can be undone"
        return f"waiting for {self._plan.spec.name}"

    @asynccontextmanager
    async def _floor(self) -> AsyncIterator[None]:
        """Hold the terminal for a question."""
        self._starting.pause()
        self._thinking.pause()
        async with self._follower.floor(self._run):
            yield

    async def _show(self, batch: Sequence[Event]) -> None:
        for event in batch:
            self._denials.add(event)
        if self._plan.options.json:
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

    def _on_event(self, event: Event) -> None:
        """Keep events of no run, for --json; those of the run come by its queue."""
        if event.run_id is None and self._plan.options.json:
            self._between.append(event)

    def _on_diagnostic(self, diagnostic: Diagnostic) -> None:
        if self._plan.options.verbose:
            self._screen.line_soon((Span(f"{diagnostic.kind}: {plain(diagnostic.text)}", "dim"),))
        elif diagnostic.kind == "stderr" and diagnostic.text.strip():
            self._starting.last_line = diagnostic.text

    async def _write_end(self, failure: DragomanError | None) -> None:
        """Write the rest once the agent has ended: errors and advice."""
        await self._show(())
        if self._plan.options.json and failure is not None and self._run is None:
            self._outbox.put(STDOUT, error_line(failure, "") + b"\n")
        self._screen.end()
        if failure is not None:
            message = exits.message_of(failure, verbose=self._plan.options.verbose, width=terminal_width())
            self._outbox.put(STDERR, message)
        elif self._shows_hints and (hint := self._plan.default_agent_hint()):
            self._outbox.put(STDERR, f"\n{exits.lay_out([hint], terminal_width())}")
        if self._denials.unanswered:
            self._outbox.put(STDERR, exits.access_advice(self._plan.access, width=terminal_width()))
        await self._outbox.flush()

    # -- interrupts

    def _on_interrupt(self) -> None:
        if self._phase == "running":
            self._screen.line_soon((Span("dragoman: cancelling… press Ctrl-C again to kill the agent", "bold"),))
            self._cancel_run()
        elif self._phase in ("starting", "open"):  # later the end is near, and there is nothing to ask for
            self._break_off()

    def _on_kill(self) -> None:
        if self._phase == "running":
            self._cancel_run()
        self._process.kill()
        if self._phase == "starting":
            self._break_off()
        else:
            asyncio.get_running_loop().call_later(LAST_EVENTS_S, self._give_up)

    def _cancel_run(self) -> None:
        if self._run is not None and self._cancelling is None:
            self._cancelling = asyncio.get_running_loop().create_task(self._run.cancel(), name="dragoman interrupt")

    def _give_up(self) -> None:
        """Stop waiting for a reader that does not take our output, unless the agent is being closed."""
        if self._phase in ("running", "ended"):
            self._break_off()

    def _pipe_closed(self) -> None:
        if self._phase in ("starting", "open", "running"):  # later all output may have been written
            self._reader_gone = True
            self._break_off()

    def _break_off(self) -> None:
        # Once only: a second one would break into the closing of the agent.
        if not self._task.cancelling():
            self._task.cancel()


def _is_same_file(first: int, second: int) -> bool:
    """Test whether both are read as one text: the same terminal, or `2>&1`."""
    try:
        return os.path.sameopenfile(first, second)
    except OSError:  # one of them is closed
        return False
