"""Dragoman: drive any coding agent that speaks the Agent Client Protocol.

    import dragoman

    result = dragoman.run_sync("claude", "Fix the failing test", cwd="repo", access="edit-inside")
    print(result.text)

Names are loaded when they are first used: importing this package costs next to nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman._version import __version__ as __version__

if TYPE_CHECKING:
    from dragoman import errors as errors
    from dragoman.backend import BackendAdapter as BackendAdapter
    from dragoman.evaluation.budget import Budget as Budget
    from dragoman.evaluation.evaluate import AcpAdapter as AcpAdapter
    from dragoman.evaluation.evaluate import AdapterConfig as AdapterConfig
    from dragoman.evaluation.evaluate import ModelConfig as ModelConfig
    from dragoman.evaluation.evaluate import evaluate as evaluate
    from dragoman.evaluation.evaluate import evaluate_sync as evaluate_sync
    from dragoman.evaluation.response import EvaluationPrompt as EvaluationPrompt
    from dragoman.evaluation.response import EvaluationStats as EvaluationStats
    from dragoman.evaluation.response import PromptResponse as PromptResponse
    from dragoman.evaluation.response import RetryPolicy as RetryPolicy
    from dragoman.evaluation.server import ToolServer as ToolServer
    from dragoman.evaluation.tool import Tool as Tool
    from dragoman.evaluation.tool import ToolContext as ToolContext
    from dragoman.evaluation.tool import ToolError as ToolError
    from dragoman.evaluation.tool import tool as tool
    from dragoman.host.permission import PermissionAnswer as PermissionAnswer
    from dragoman.host.permission import PermissionRequest as PermissionRequest
    from dragoman.host.permission import answer_later as answer_later
    from dragoman.host.policy.rules import PolicyRule as PolicyRule
    from dragoman.host.question.question import Question as Question
    from dragoman.host.question.question import QuestionAnswer as QuestionAnswer
    from dragoman.hub.hub import Hub as Hub
    from dragoman.hub.local import open_session as open_session
    from dragoman.hub.local import open_session_sync as open_session_sync
    from dragoman.hub.local import resume_session as resume_session
    from dragoman.hub.local import resume_session_sync as resume_session_sync
    from dragoman.hub.local import run as run
    from dragoman.hub.local import run_sync as run_sync
    from dragoman.hub.local import worktrees as worktrees
    from dragoman.hub.local import worktrees_sync as worktrees_sync
    from dragoman.protocol.checkpoints import Checkpoint as Checkpoint
    from dragoman.protocol.checkpoints import ComparedFile as ComparedFile
    from dragoman.protocol.checkpoints import Hunk as Hunk
    from dragoman.protocol.checkpoints import Rewind as Rewind
    from dragoman.protocol.checkpoints import RewindChange as RewindChange
    from dragoman.protocol.checkpoints import RunRef as RunRef
    from dragoman.protocol.checkpoints import SkippedPath as SkippedPath
    from dragoman.protocol.checkpoints import WorkspaceDiff as WorkspaceDiff
    from dragoman.protocol.git import GitCommit as GitCommit
    from dragoman.protocol.git import GitFile as GitFile
    from dragoman.protocol.git import GitPush as GitPush
    from dragoman.protocol.git import GitRemote as GitRemote
    from dragoman.protocol.git import GitState as GitState
    from dragoman.protocol.git import ProposedMessage as ProposedMessage
    from dragoman.protocol.git import PullRequest as PullRequest
    from dragoman.protocol.models import IsolationReport as IsolationReport
    from dragoman.protocol.requests import Isolation as Isolation
    from dragoman.protocol.worktrees import Leftover as Leftover
    from dragoman.protocol.worktrees import WorktreeApply as WorktreeApply
    from dragoman.protocol.worktrees import WorktreeChanges as WorktreeChanges
    from dragoman.protocol.worktrees import WorktreeChoice as WorktreeChoice
    from dragoman.protocol.worktrees import WorktreeInfo as WorktreeInfo
    from dragoman.protocol.worktrees import WorktreeMerge as WorktreeMerge
    from dragoman.record import events as events
    from dragoman.record import rows as rows
    from dragoman.remote.client import Client as Client
    from dragoman.remote.client import SyncClient as SyncClient
    from dragoman.remote.session import RemoteSession as RemoteSession
    from dragoman.session.capabilities import Capabilities as Capabilities
    from dragoman.session.capabilities import LoginMethod as LoginMethod
    from dragoman.session.client import LocalClient as LocalClient
    from dragoman.session.diagnostics import Diagnostic as Diagnostic
    from dragoman.session.git import GitActions as GitActions
    from dragoman.session.handle import SessionHandle as SessionHandle
    from dragoman.session.login import login as login
    from dragoman.session.options import SessionConfig as SessionConfig
    from dragoman.session.ports import AgentClient as AgentClient
    from dragoman.session.prompt import AudioAttachment as AudioAttachment
    from dragoman.session.prompt import FileAttachment as FileAttachment
    from dragoman.session.prompt import ImageAttachment as ImageAttachment
    from dragoman.session.prompt import LinkAttachment as LinkAttachment
    from dragoman.session.prompt import TextAttachment as TextAttachment
    from dragoman.session.run import Run as Run
    from dragoman.session.run import RunResult as RunResult
    from dragoman.session.runtime import AgentRuntime as AgentRuntime
    from dragoman.session.session import Session as Session
    from dragoman.session.spec import AgentSpec as AgentSpec
    from dragoman.session.spec import Limits as Limits
    from dragoman.session.sync import SyncAgentRuntime as SyncAgentRuntime
    from dragoman.session.sync import SyncGit as SyncGit
    from dragoman.session.sync import SyncRun as SyncRun
    from dragoman.session.sync import SyncSession as SyncSession
    from dragoman.session.sync_worktrees import SyncWorktree as SyncWorktree
    from dragoman.session.sync_worktrees import SyncWorktrees as SyncWorktrees
    from dragoman.wire.vocabulary import EnvVariable as EnvVariable
    from dragoman.wire.vocabulary import HttpHeader as HttpHeader
    from dragoman.wire.vocabulary import McpServerHttp as McpServerHttp
    from dragoman.wire.vocabulary import McpServerSse as McpServerSse
    from dragoman.wire.vocabulary import McpServerStdio as McpServerStdio
    from dragoman.workspace import Workspace as Workspace
    from dragoman.workspace.worktrees import Worktree as Worktree
    from dragoman.workspace.worktrees import Worktrees as Worktrees

_HOMES = {
    "AcpAdapter": "evaluation.evaluate",
    "AdapterConfig": "evaluation.evaluate",
    "AgentClient": "session.ports",
    "AgentRuntime": "session.runtime",
    "AgentSpec": "session.spec",
    "AudioAttachment": "session.prompt",
    "BackendAdapter": "backend",
    "Budget": "evaluation.budget",
    "Capabilities": "session.capabilities",
    "Checkpoint": "protocol.checkpoints",
    "Client": "remote.client",
    "ComparedFile": "protocol.checkpoints",
    "Diagnostic": "session.diagnostics",
    "EnvVariable": "wire.vocabulary",
    "EvaluationPrompt": "evaluation.response",
    "EvaluationStats": "evaluation.response",
    "FileAttachment": "session.prompt",
    "GitActions": "session.git",
    "GitCommit": "protocol.git",
    "GitFile": "protocol.git",
    "GitPush": "protocol.git",
    "GitRemote": "protocol.git",
    "GitState": "protocol.git",
    "HttpHeader": "wire.vocabulary",
    "Hub": "hub.hub",
    "Hunk": "protocol.checkpoints",
    "ImageAttachment": "session.prompt",
    "Leftover": "protocol.worktrees",
    "Isolation": "protocol.requests",
    "IsolationReport": "protocol.models",
    "Limits": "session.spec",
    "LinkAttachment": "session.prompt",
    "LocalClient": "session.client",
    "LoginMethod": "session.capabilities",
    "McpServerHttp": "wire.vocabulary",
    "McpServerSse": "wire.vocabulary",
    "McpServerStdio": "wire.vocabulary",
    "ModelConfig": "evaluation.evaluate",
    "PermissionAnswer": "host.permission",
    "PermissionRequest": "host.permission",
    "PolicyRule": "host.policy.rules",
    "PromptResponse": "evaluation.response",
    "ProposedMessage": "protocol.git",
    "PullRequest": "protocol.git",
    "Question": "host.question.question",
    "QuestionAnswer": "host.question.question",
    "RemoteSession": "remote.session",
    "RetryPolicy": "evaluation.response",
    "Rewind": "protocol.checkpoints",
    "RewindChange": "protocol.checkpoints",
    "Run": "session.run",
    "RunRef": "protocol.checkpoints",
    "RunResult": "session.run",
    "Session": "session.session",
    "SessionConfig": "session.options",
    "SessionHandle": "session.handle",
    "SkippedPath": "protocol.checkpoints",
    "SyncAgentRuntime": "session.sync",
    "SyncClient": "remote.client",
    "SyncGit": "session.sync",
    "SyncRun": "session.sync",
    "SyncSession": "session.sync",
    "SyncWorktree": "session.sync_worktrees",
    "SyncWorktrees": "session.sync_worktrees",
    "TextAttachment": "session.prompt",
    "Tool": "evaluation.tool",
    "ToolContext": "evaluation.tool",
    "ToolError": "evaluation.tool",
    "ToolServer": "evaluation.server",
    "Workspace": "workspace",
    "WorkspaceDiff": "protocol.checkpoints",
    "Worktree": "workspace.worktrees",
    "WorktreeApply": "protocol.worktrees",
    "WorktreeChanges": "protocol.worktrees",
    "WorktreeChoice": "protocol.worktrees",
    "WorktreeInfo": "protocol.worktrees",
    "WorktreeMerge": "protocol.worktrees",
    "Worktrees": "workspace.worktrees",
    "answer_later": "host.permission",
    "evaluate": "evaluation.evaluate",
    "evaluate_sync": "evaluation.evaluate",
    "login": "session.login",
    "open_session": "hub.local",
    "open_session_sync": "hub.local",
    "resume_session": "hub.local",
    "resume_session_sync": "hub.local",
    "run": "hub.local",
    "run_sync": "hub.local",
    "tool": "evaluation.tool",
    "worktrees": "hub.local",
    "worktrees_sync": "hub.local",
}
_MODULES = {"errors": "errors", "events": "record.events", "ports": "session.ports", "rows": "record.rows"}


__all__ = ["__version__", *_HOMES, *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        value: Any = import_module(f"dragoman.{_MODULES[name]}")
    elif name in _HOMES:
        value = getattr(import_module(f"dragoman.{_HOMES[name]}"), name)
    else:
        raise AttributeError(f"module 'dragoman' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
