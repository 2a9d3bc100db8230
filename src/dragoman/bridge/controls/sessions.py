"""`session.*` and `queue.*`: opening, steering and reading sessions."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import msgspec

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.feeds import HIDDEN
from dragoman.bridge.folders import folder_of
from dragoman.bridge.payload import SessionItem
from dragoman.bridge.refusal import Refusal
from dragoman.bridge.rows import newest, row_of
from dragoman.config import ACCESS, load
from dragoman.host.policy.access import parse_access
from dragoman.hub import commands
from dragoman.hub.commands import Outcome
from dragoman.journal import notes
from dragoman.journal.markdown import session_markdown
from dragoman.journal.rows import Session as SessionRow
from dragoman.journal.session_record import SessionRecord
from dragoman.journal.transfer import export
from dragoman.session.client import Continuing
from dragoman.session.session import new_id
from dragoman.session.spec import SessionConfig
from dragoman.wire.messages import Notification
from dragoman.workspace import Workspace

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge

# Of a title: a line in a list.
TITLE: Final = 200

# Bytes of an export over the socket; a longer one is for `dragoman sessions export`.
EXPORT: Final = 64 * 1024 * 1024


async def row_of_session(bridge: Bridge, session_id: str) -> SessionRow:
    row = await bridge.hub.journal.session(session_id)
    if row is None:
        raise Refusal("not_found", f"there is no session {session_id}", field="session_id")
    return row


# -- opening


async def open_session(bridge: Bridge, said: asked.SessionOpen, caller: Caller) -> answers.Opened:
    session_id = _id_for(said.command_id)
    if await bridge.hub.journal.session(session_id) is not None:
        return await bridge.opened(session_id)
    settings = load(bridge.config.home)
    access = parse_access(said.access or settings.access)
    if ACCESS.index(access) > ACCESS.index(settings.access):
        caller.require("admin", f"a session that may do more than {settings.access!r}")
    if said.agent is not None and "://" in said.agent:
        caller.require("admin", "an agent at an address of one's own")
    if said.network or said.web_search:
        caller.require("admin", "a session that may use the network unasked")
    config = SessionConfig(
        workspace=Workspace(folder_of(said.cwd), [folder_of(one, "additional") for one in said.additional]),
        access=access,
        model=said.model,
        mode=said.mode,
        options=dict(said.options),
        reasoning_effort=said.reasoning_effort,
        system_prompt=said.system_prompt,
        network=said.network,
        web_search=said.web_search,
    )
    held = await bridge.hub.start_session(said.agent or settings.agent, config, session_id)
    return await bridge.opened(held.id)


def _id_for(command_id: str | None) -> str:
    """The id of a session that a command opens: sent again, also to another process, it finds what it opened."""
    return new_id() if command_id is None else hashlib.sha256(command_id.encode()).hexdigest()[:12]


async def _reopen(bridge: Bridge, session_id: str, how: Continuing, *, anyway: bool = True) -> answers.Opened:
    await row_of_session(bridge, session_id)
    await bridge.hub.continue_session(session_id, how, anyway=anyway)
    return await bridge.opened(session_id)


async def load_session(bridge: Bridge, said: asked.SessionLoad, caller: Caller) -> answers.Opened:
    return await _reopen(bridge, said.session_id, "load")


async def resume(bridge: Bridge, said: asked.SessionResume, caller: Caller) -> answers.Opened:
    return await _reopen(bridge, said.session_id, "resume", anyway=False)


async def restart(bridge: Bridge, said: asked.SessionRestart, caller: Caller) -> answers.Opened:
    return await _reopen(bridge, said.session_id, "resume" if said.reload else "anew")


async def fork(bridge: Bridge, said: asked.SessionFork, caller: Caller) -> answers.Opened:
    await row_of_session(bridge, said.session_id)
    fork_id = _id_for(said.command_id)
    if await bridge.hub.journal.session(fork_id) is None:
        await bridge.hub.fork_session(said.session_id, fork_id)
    return await bridge.opened(fork_id)


async def close(bridge: Bridge, said: asked.SessionClose, caller: Caller) -> answers.Done:
    await row_of_session(bridge, said.session_id)
    if said.session_id in bridge.hub.owned_sessions:
        await bridge.hub.close_session(said.session_id)
    else:
        await _command(bridge, said.session_id, commands.Close(), said.command_id)
    return answers.Done()


async def delete(bridge: Bridge, said: asked.SessionDelete, caller: Caller) -> answers.Done:
    deleted = await bridge.hub.delete_session(said.session_id, by=caller.name)
    if not deleted and said.command_id is None:
        raise Refusal("not_found", f"there is no session {said.session_id}", field="session_id")
    return answers.Done()


# -- steering


async def _command(bridge: Bridge, session_id: str, command: commands.Command, command_id: str | None) -> Outcome:
    await row_of_session(bridge, session_id)
    return await bridge.hub.command(session_id, command, command_id)


def _prompted(outcome: Outcome) -> answers.Prompted:
    return answers.Prompted(run_id=outcome.run_id, queued_id=outcome.queued_id, how=outcome.how or "started")


async def prompt(bridge: Bridge, said: asked.SessionPrompt, caller: Caller) -> answers.Prompted:
    command = commands.Prompt(text=said.text, attachments=said.attachments, when=said.when, run_id=said.run_id)
    return _prompted(await _command(bridge, said.session_id, command, said.command_id))


async def queue_add(bridge: Bridge, said: asked.QueueAdd, caller: Caller) -> answers.Prompted:
    command = commands.Prompt(text=said.text, attachments=said.attachments)
    return _prompted(await _command(bridge, said.session_id, command, said.command_id))


async def queue_edit(bridge: Bridge, said: asked.QueueEdit, caller: Caller) -> answers.Done:
    command = commands.EditQueued(queued_id=said.queued_id, text=said.text)
    await _command(bridge, said.session_id, command, said.command_id)
    return answers.Done()


async def queue_move(bridge: Bridge, said: asked.QueueMove, caller: Caller) -> answers.Done:
    command = commands.MoveQueued(queued_id=said.queued_id, to=said.to)
    await _command(bridge, said.session_id, command, said.command_id)
    return answers.Done()


async def queue_send(bridge: Bridge, said: asked.QueueSend, caller: Caller) -> answers.Prompted:
    return _prompted(
        await _command(bridge, said.session_id, commands.SendQueued(queued_id=said.queued_id), said.command_id)
    )


async def queue_remove(bridge: Bridge, said: asked.QueueRemove, caller: Caller) -> answers.Done:
    await _command(bridge, said.session_id, commands.RemoveQueued(queued_id=said.queued_id), said.command_id)
    return answers.Done()


async def cancel(bridge: Bridge, said: asked.SessionCancel, caller: Caller) -> answers.Done:
    await _command(bridge, said.session_id, commands.Cancel(run_id=said.run_id), said.command_id)
    return answers.Done()


async def set_option(bridge: Bridge, said: asked.SessionSetOption, caller: Caller) -> answers.Done:
    command = commands.SetOption(option_id=said.option_id, value=said.value)
    await _command(bridge, said.session_id, command, said.command_id)
    return answers.Done()


async def set_mode(bridge: Bridge, said: asked.SessionSetMode, caller: Caller) -> answers.Done:
    await _command(bridge, said.session_id, commands.SetMode(mode=said.mode), said.command_id)
    return answers.Done()


async def answer_permission(bridge: Bridge, said: asked.PermissionAnswer, caller: Caller) -> answers.Answered:
    if said.always:
        caller.require("admin", "an answer for good, which makes a rule,")
    command = commands.AnswerPermission(
        permission_id=said.permission_id,
        option_id=said.option_id,
        answer=said.answer,
        always=said.always,
        by=said.by,
        remember=caller.scope == "admin",
    )
    outcome = await _command(bridge, said.session_id, command, said.command_id)
    return answers.Answered(accepted=outcome.accepted)


async def answer_question(bridge: Bridge, said: asked.QuestionAnswer, caller: Caller) -> answers.Answered:
    command = commands.AnswerQuestion(
        question_id=said.question_id, action=said.action, content=said.content, by=said.by
    )
    outcome = await _command(bridge, said.session_id, command, said.command_id)
    return answers.Answered(accepted=outcome.accepted)


async def rename(bridge: Bridge, said: asked.SessionRename, caller: Caller) -> answers.Done:
    await row_of_session(bridge, said.session_id)
    shown = "".join(letter if letter.isprintable() else " " for letter in said.title)
    title = " ".join(shown.split())[:TITLE]

    def named(record: SessionRecord) -> Sequence[Notification]:
        return [notes.write(notes.SessionRenamed(title=title))]

    await bridge.hub.note(said.session_id, named)
    return answers.Done()


# -- reading


async def list_sessions(bridge: Bridge, said: asked.SessionList, caller: Caller) -> answers.Listed:
    def wanted(item: SessionItem) -> bool:
        return (
            (said.before is None or item.updated < said.before)
            and (said.agent is None or item.agent == said.agent)
            and (said.cwd is None or item.cwd == said.cwd)
        )

    found, more = bridge.feeds.listing.latest(min(max(said.limit, 1), 1000), wanted)
    return answers.Listed(sessions=tuple(found), more=more)


async def history(bridge: Bridge, said: asked.SessionHistory, caller: Caller) -> answers.History:
    await row_of_session(bridge, said.session_id)
    found = await bridge.hub.journal.rows(said.session_id)
    rows, more, before = newest(found, min(max(said.limit, 1), 5000), max(said.before, 0))
    return answers.History(rows=rows, more=more, before=before)


async def whole_row(bridge: Bridge, said: asked.SessionRow, caller: Caller) -> answers.WholeRow:
    await row_of_session(bridge, said.session_id)
    rows = getattr(await bridge.hub.journal.rows(said.session_id), said.table)
    for row in rows:
        made = row_of(row, whole=True)
        if made is not None and made.id == said.row_id:
            return answers.WholeRow(row=made)
    raise Refusal("not_found", f"session {said.session_id} has no {said.row_id} in {said.table}", field="row_id")


class _Line(msgspec.Struct, frozen=True):
    kind: str = ""


async def export_session(bridge: Bridge, said: asked.SessionExport, caller: Caller) -> answers.Exported:
    row = await row_of_session(bridge, said.session_id)
    if said.format == "markdown":
        text = "".join(session_markdown(await bridge.hub.journal.rows(row.id)))
        return answers.Exported(file_name=f"{row.id}.md", mime_type="text/markdown", text=text)
    caller.require("admin", "exporting frames")
    lines: list[bytes] = []
    size = 0
    async for line in export(bridge.hub.journal, row.id):
        if msgspec.json.decode(line, type=_Line).kind.startswith(HIDDEN):
            continue
        lines.append(line)
        size += len(line)
        if size > EXPORT:
            raise Refusal(
                "too_large",
                "this session is too long to be exported here",
                guidance=f"dragoman sessions export {row.id} -o {row.id}.jsonl",
            )
    text = b"".join(lines).decode("utf-8", "replace")
    return answers.Exported(file_name=f"{row.id}.jsonl", mime_type="application/x-ndjson", text=text)
