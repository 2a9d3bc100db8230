"""Which function answers which control, and the scope that it needs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, TypeAlias

from dragoman.bridge import asked
from dragoman.bridge.controls import (
    agents,
    contents,
    files,
    history,
    policy,
    sessions,
    settings,
    terminals,
    tokens,
    transcripts,
)
from dragoman.bridge.messages import Scope

# A bridge, the control, and who asks; what it is answered with.
Handler: TypeAlias = Callable[[Any, Any, Any], Awaitable[Any]]

CONTROLS: Final[dict[type[asked.Control], tuple[Scope, Handler]]] = {
    asked.SessionOpen: ("prompt", sessions.open_session),
    asked.SessionPrompt: ("prompt", sessions.prompt),
    asked.SessionCancel: ("prompt", sessions.cancel),
    asked.SessionClose: ("prompt", sessions.close),
    asked.SessionDelete: ("admin", sessions.delete),
    asked.SessionFork: ("prompt", sessions.fork),
    asked.SessionLoad: ("prompt", sessions.load_session),
    asked.SessionResume: ("prompt", sessions.resume),
    asked.SessionRestart: ("prompt", sessions.restart),
    asked.SessionSetOption: ("prompt", sessions.set_option),
    asked.SessionSetMode: ("prompt", sessions.set_mode),
    asked.SessionRename: ("prompt", sessions.rename),
    asked.SessionExport: ("view", sessions.export_session),
    asked.SessionList: ("view", sessions.list_sessions),
    asked.SessionHistory: ("view", sessions.history),
    asked.SessionRow: ("view", sessions.whole_row),
    asked.SessionContents: ("view", contents.contents),
    asked.SessionDiffs: ("view", contents.diffs),
    asked.QueueAdd: ("prompt", sessions.queue_add),
    asked.QueueEdit: ("prompt", sessions.queue_edit),
    asked.QueueMove: ("prompt", sessions.queue_move),
    asked.QueueSend: ("prompt", sessions.queue_send),
    asked.QueueRemove: ("prompt", sessions.queue_remove),
    asked.WorkspaceRecent: ("view", policy.recent),
    asked.WorkspaceTrust: ("admin", policy.trust_workspace),
    asked.PermissionAnswer: ("prompt", sessions.answer_permission),
    asked.QuestionAnswer: ("prompt", sessions.answer_question),
    asked.PolicyList: ("view", policy.list_rules),
    asked.PolicyPreview: ("view", policy.preview),
    asked.PolicyAdd: ("admin", policy.add),
    asked.PolicyRevoke: ("admin", policy.revoke),
    asked.AgentList: ("view", agents.list_agents),
    asked.AgentAdd: ("admin", agents.add),
    asked.AgentEdit: ("admin", agents.edit),
    asked.AgentRemove: ("admin", agents.remove),
    asked.AgentTest: ("admin", agents.test),
    asked.AgentLogin: ("admin", agents.login),
    asked.TokenList: ("admin", tokens.list_tokens),
    asked.TokenCreate: ("admin", tokens.create),
    asked.TokenRevoke: ("admin", tokens.revoke),
    asked.TerminalInput: ("prompt", terminals.type_in),
    asked.TerminalResize: ("prompt", terminals.resize),
    asked.TerminalKill: ("prompt", terminals.kill),
    asked.Search: ("view", history.search),
    asked.UsageAsked: ("view", history.usage),
    asked.FilesList: ("view", files.list_files),
    asked.FilesRead: ("view", files.read),
    asked.TranscriptsList: ("view", transcripts.list_transcripts),
    asked.TranscriptsAllow: ("admin", transcripts.allow),
    asked.SettingsGet: ("view", settings.get),
    asked.SettingsSet: ("admin", settings.set_),
}
