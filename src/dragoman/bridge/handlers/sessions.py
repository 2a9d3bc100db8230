"""Handlers of `session.*`, `queue.*`, `permission.*`, `question.*` and `terminal.*`."""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from dragoman.bridge.auth import Caller
from dragoman.bridge.broadcaster import HIDDEN_KIND
from dragoman.bridge.changes import changes_summary, file_diffs
from dragoman.bridge.refusal import Refusal, existing_folder
from dragoman.bridge.rows import MAX_SENT_CHARS, form_of, full_row_model, newest_rows
from dragoman.bridge.services import Services, handles
from dragoman.config import load
from dragoman.errors import InputError
from dragoman.host.policy.access import parse_access
from dragoman.hub import commands
from dragoman.hub.commands import Outcome
from dragoman.journal import notes
from dragoman.journal.markdown import session_markdown
from dragoman.journal.rows import row_key
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.transfer import export
from dragoman.protocol import requests, results
from dragoman.protocol.models import SessionItem
from dragoman.record import rows
from dragoman.session.client import Continuing
from dragoman.session.journal_client import REMOVED_BY
from dragoman.session.options import SessionConfig, read_worktree, settings_in
from dragoman.session.session import new_id
from dragoman.wire.messages import Notification
from dragoman.workspace import Workspace

# A title is a line in a list.
MAX_TITLE_CHARS: Final = 200

# A longer export is for `dragoman sessions export`.
MAX_EXPORT_BYTES: Final = 64 * 1024 * 1024

MAX_TERMINAL_SIDE: Final = 1000  # columns or rows


# -- opening and closing


@handles(requests.SessionOpen)
async def open_session(services: Services, request: requests.SessionOpen, caller: Caller) -> results.SessionOpened:
    session_id = await _id_for(services, request.command_id)
    if await services.journal.session(session_id) is not None:
        return await services.opened(session_id)
    await services.check_folders(caller, request.cwd, *request.additional)  # before it tells whether they exist
    settings = load(services.config.home)
    access = parse_access(request.access or settings.access)
    config = SessionConfig(
        workspace=Workspace(
            existing_folder(request.cwd), [existing_folder(folder, "additional") for folder in request.additional]
        ),
        worktree=read_worktree(request.worktree),
        **{**settings_in(request), "access": access},
    )
    owned = await services.hub.start_session(request.agent or settings.agent, config, session_id, caller.scope)
    return await services.opened(owned.id)


async def _id_for(services: Services, command_id: str | None) -> str:
    """The id of a session that a command opens: sent again, also to another process, it finds that session.

    Where that session was removed because it had no prompt, the command opens another one.
    """
    if command_id is None:
        return new_id()
    removed = {tombstone.id for tombstone in await services.journal.tombstones() if tombstone.by == REMOVED_BY}
    session_id = _digest(command_id)
    while session_id in removed:
        session_id = _digest(session_id)
    return session_id


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]


async def _resume(
    services: Services, session_id: str, how: Continuing, caller: Caller, *, restart: bool = True
) -> results.SessionOpened:
    await services.session_row(session_id)
    await services.hub.continue_session(session_id, how, anyway=restart, scope=caller.scope)
    return await services.opened(session_id)


@handles(requests.SessionLoad)
async def load_session(services: Services, request: requests.SessionLoad, caller: Caller) -> results.SessionOpened:
    return await _resume(services, request.session_id, "load", caller)


@handles(requests.SessionResume)
async def resume_session(services: Services, request: requests.SessionResume, caller: Caller) -> results.SessionOpened:
    return await _resume(services, request.session_id, "resume", caller, restart=False)


@handles(requests.SessionRestart)
async def restart_session(
    services: Services, request: requests.SessionRestart, caller: Caller
) -> results.SessionOpened:
    return await _resume(services, request.session_id, "resume" if request.reload else "new", caller)


@handles(requests.SessionFork)
async def fork_session(services: Services, request: requests.SessionFork, caller: Caller) -> results.SessionOpened:
    await services.session_row(request.session_id)
    fork_id = await _id_for(services, request.command_id)
    if await services.journal.session(fork_id) is None:
        await services.hub.fork_session(request.session_id, fork_id, scope=caller.scope)
    return await services.opened(fork_id)


@handles(requests.SessionClose)
async def close_session(services: Services, request: requests.SessionClose, caller: Caller) -> results.Done:
    await services.session_row(request.session_id)
    if request.session_id in services.hub.owned_sessions:
        await services.hub.close_session(request.session_id)
    else:
        await _command(services, request, caller)
    return results.Done()


@handles(requests.SessionDelete)
async def delete_session(services: Services, request: requests.SessionDelete, caller: Caller) -> results.Done:
    deleted = await services.hub.delete_session(request.session_id, by=caller.name)
    if not deleted and request.command_id is None:
        raise Refusal("not_found", f"there is no session {request.session_id}", field="session_id")
    return results.Done()


# -- commands to the owner of a session


async def _command(services: Services, command: commands.Command, caller: Caller) -> Outcome:
    await services.session_row(command.session_id)
    return await services.hub.command(command, caller.scope)


async def _prompt(services: Services, command: commands.Command, caller: Caller) -> results.PromptAccepted:
    outcome = await _command(services, command, caller)
    return results.PromptAccepted(run_id=outcome.run_id, queued_id=outcome.queued_id, how=outcome.how or "started")


@handles(requests.SessionPrompt)
async def send_prompt(services: Services, request: requests.SessionPrompt, caller: Caller) -> results.PromptAccepted:
    return await _prompt(services, request, caller)


@handles(requests.QueueAdd)
async def queue_prompt(services: Services, request: requests.QueueAdd, caller: Caller) -> results.PromptAccepted:
    prompt = requests.SessionPrompt(
        command_id=request.command_id,
        session_id=request.session_id,
        text=request.text,
        attachments=request.attachments,
    )
    return await _prompt(services, prompt, caller)


@handles(requests.QueueSend)
async def send_queued(services: Services, request: requests.QueueSend, caller: Caller) -> results.PromptAccepted:
    return await _prompt(services, request, caller)


async def carry_out(services: Services, request: commands.Command, caller: Caller) -> results.Done:
    await _command(services, request, caller)
    return results.Done()


handles(requests.QueueEdit)(carry_out)
handles(requests.QueueMove)(carry_out)
handles(requests.QueueRemove)(carry_out)
handles(requests.SessionCancel)(carry_out)
handles(requests.SessionSetOption)(carry_out)
handles(requests.SessionSetMode)(carry_out)


@handles(requests.PermissionAnswer)
async def answer_permission(
    services: Services, request: requests.PermissionAnswer, caller: Caller
) -> results.AnswerResult:
    if request.always:
        caller.require("admin", "answering with a rule for the future")
    may_remember = request.remember and caller.scope == "admin"
    outcome = await _command(services, msgspec.structs.replace(request, remember=may_remember), caller)
    return results.AnswerResult(accepted=outcome.accepted)


@handles(requests.QuestionAnswer)
async def answer_question(services: Services, request: requests.QuestionAnswer, caller: Caller) -> results.AnswerResult:
    question = services.listing.pending_question(request.session_id, request.question_id)
    if question is not None and request.action == "accept":
        _check_answer(question, request.content or {})
    return results.AnswerResult(accepted=(await _command(services, request, caller)).accepted)


def _check_answer(question: rows.Question, content: dict[str, Any]) -> None:
    """Refuse content that does not fit the form, with a message for each field. The session's owner checks it again."""
    form = form_of(question)
    if form is None:
        return
    try:
        form.validate(content)
    except InputError as error:
        raise Refusal(
            "invalid",
            str(error),
            guidance=error.guidance,
            field="content",
            error=type(error).__name__,
            fields=form.errors(content),
        ) from None


@handles(requests.SessionRename)
async def rename_session(services: Services, request: requests.SessionRename, caller: Caller) -> results.Done:
    await services.session_row(request.session_id)
    printable = "".join(letter if letter.isprintable() else " " for letter in request.title)
    title = " ".join(printable.split())[:MAX_TITLE_CHARS]

    def renamed(record: SessionRecord) -> Sequence[Notification]:
        return [notes.write(notes.SessionRenamed(title=title))]

    await services.hub.note(request.session_id, renamed)
    return results.Done()


# -- reading


@handles(requests.SessionList)
async def list_sessions(services: Services, request: requests.SessionList, caller: Caller) -> results.SessionPage:
    def matches(item: SessionItem) -> bool:
        return (
            (request.before is None or item.updated < request.before)
            and (request.agent is None or item.agent == request.agent)
            and (request.cwd is None or item.cwd == request.cwd)
        )

    sessions, more = services.listing.latest(min(max(request.limit, 1), 1000), matches)
    return results.SessionPage(sessions=tuple(sessions), more=more)


@handles(requests.SessionHistory)
async def read_history(services: Services, request: requests.SessionHistory, caller: Caller) -> results.HistoryPage:
    session_rows = await services.session_rows(request.session_id, max_characters=MAX_SENT_CHARS)
    newest, more, before = newest_rows(session_rows, min(max(request.limit, 1), 5000), max(request.before, 0))
    return results.HistoryPage(rows=newest, more=more, before=before)


@handles(requests.SessionRow)
async def read_row(services: Services, request: requests.SessionRow, caller: Caller) -> results.FullRow:
    for row in getattr(await services.session_rows(request.session_id), request.table):
        if row_key(row) == request.row_id and (model := full_row_model(row, max(request.offset, 0))) is not None:
            return results.FullRow(row=model)
    raise Refusal(
        "not_found", f"session {request.session_id} has no {request.row_id} in {request.table}", field="row_id"
    )


@handles(requests.SessionChanges)
async def list_changes(services: Services, request: requests.SessionChanges, caller: Caller) -> results.ChangesSummary:
    session_rows = await services.session_rows(request.session_id)
    # In a thread: counting the lines of thousands of diffs takes seconds.
    return await asyncio.to_thread(changes_summary, session_rows, request.run_id)


@handles(requests.SessionDiffs)
async def read_diffs(services: Services, request: requests.SessionDiffs, caller: Caller) -> results.FileDiffs:
    session_rows = await services.session_rows(request.session_id)
    return await asyncio.to_thread(file_diffs, session_rows, request.path, request.run_id)


class _ExportedLine(msgspec.Struct, frozen=True):
    kind: str = ""


@handles(requests.SessionExport)
async def export_session(
    services: Services, request: requests.SessionExport, caller: Caller
) -> results.ExportedSession:
    row = await services.session_row(request.session_id)
    if request.format == "markdown":
        text = "".join(session_markdown(await services.journal.rows(row.id)))
        return results.ExportedSession(file_name=f"{row.id}.md", mime_type="text/markdown", text=text)
    caller.require("admin", "exporting frames")
    lines: list[bytes] = []
    size = 0
    async for line in export(services.journal, row.id):
        if msgspec.json.decode(line, type=_ExportedLine).kind.startswith(HIDDEN_KIND):
            continue
        lines.append(line)
        size += len(line)
        if size > MAX_EXPORT_BYTES:
            raise Refusal(
                "too_large",
                "this session is too long to be exported over the network",
                guidance=f"dragoman sessions export {row.id} -o {row.id}.jsonl",
            )
    text = b"".join(lines).decode("utf-8", "replace")
    return results.ExportedSession(file_name=f"{row.id}.jsonl", mime_type="application/x-ndjson", text=text)


# -- terminals


@handles(requests.TerminalInput)
async def type_into_terminal(services: Services, request: requests.TerminalInput, caller: Caller) -> results.Done:
    terminal = services.terminal(request.session_id, request.terminal_id)
    try:
        data = base64.b64decode(request.data, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal("invalid", "data is not base64", field="data") from None
    if not terminal.has_pty:
        raise Refusal("unsupported", "this command has no terminal to type into")
    await terminal.write(data)
    return results.Done()


@handles(requests.TerminalResize)
async def resize_terminal(services: Services, request: requests.TerminalResize, caller: Caller) -> results.Done:
    terminal = services.terminal(request.session_id, request.terminal_id)
    if not (1 <= request.columns <= MAX_TERMINAL_SIDE and 1 <= request.rows <= MAX_TERMINAL_SIDE):
        raise Refusal("invalid", f"a terminal has 1 to {MAX_TERMINAL_SIDE} columns and rows", field="columns")
    terminal.resize(request.columns, request.rows)
    return results.Done()


@handles(requests.TerminalKill)
async def kill_terminal(services: Services, request: requests.TerminalKill, caller: Caller) -> results.Done:
    await services.terminal(request.session_id, request.terminal_id).end()
    return results.Done()
