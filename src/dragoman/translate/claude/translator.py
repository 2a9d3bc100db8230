"""Claude Code's transcripts, from 1.0.24 to 2.1.325: `~/.claude/projects/<folder>/<session>.jsonl`.

One file is one session; a sub-agent is a session of its own, named by the id of the agent. If a record comes twice in a
file, the second is left out. Records with the same uuid in another file (of a session that was forked or resumed under
another id) are translated again; `_meta.native.uuid` shows that they are the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from dragoman.translate import records as common
from dragoman.translate.claude import records
from dragoman.translate.claude.records import Record, native_meta
from dragoman.translate.claude.session import Session
from dragoman.translate.frames import native_frame
from dragoman.translate.scratch import ObjectStore, Scratch, SpillingMap, SpillingSet
from dragoman.translate.translator import Frame, Translator
from dragoman.wire.messages import DECODE_ERRORS
from dragoman.wire.vocabulary import NoticeSeverity, RunningStateUpdate

# The way from a record to the message before it has one step, and one more for each record that is before its parent in
# the file. The limit ends the search among records that name each other as their parents.
_MAX_PARENT_STEPS: Final = 100


class MessageChains:
    """The tree of `parentUuid`, as far as it says which sub-agent a record belongs to, and where the user went back."""

    def __init__(self, scratch: Scratch) -> None:
        self._roots: SpillingMap[str] = SpillingMap(scratch)  # uuids in side chains, to the first uuid of the chain
        # Records that are no messages (hooks, progress, attachments), to the message before each.
        self._message_before: SpillingMap[str] = SpillingMap(scratch)
        self._prompted_after = SpillingSet(scratch)  # uuids that a prompt has followed

    def root_of(self, record: Record) -> str:
        """Return the first uuid of this record's side chain, which may be its own."""
        uuid = record.uuid or ""
        root = self._roots.get(record.parent_uuid or "")
        if root is None:
            root = uuid
        self._roots.put(uuid, root)
        return root

    def add(self, record: Record) -> None:
        if record.uuid is not None and record.type not in _MESSAGE_TYPES:
            self._message_before.put(record.uuid, self._last_message(record) or "")

    def _last_message(self, record: Record) -> str | None:
        """Return the uuid of the message before a record. Nearly always, parents come before their children."""
        uuid = record.parent_uuid
        for _ in range(_MAX_PARENT_STEPS):
            if not uuid or (before := self._message_before.get(uuid)) is None:
                break
            uuid = before
        return uuid or None

    def rewound_to(self, record: Record) -> str | None:
        """Return the message to which the user went back with this prompt; None if the user did not.

        The sign is that another prompt has followed that message before. All other forks of the tree come from the way
        in which the file is written.
        """
        parent = self._last_message(record)
        return None if parent is None or self._prompted_after.add(parent) else parent


# Records for Claude Code itself: known, and no part of the conversation. The messages in `api-request-blob` are copies
# from other records.
_BOOKKEEPING: Final = frozenset(
    {
        "file-history-snapshot", "file-history-delta", "last-prompt", "mode", "bridge-session", "pr-link", "frame-link",
        "agent-name", "agent-color", "agent-setting", "queue-operation", "api-request", "api-request-shape",
        "api-request-blob", "atis-latch", "tools-used", "tag", "task-summary", "worktree-state", "relocated",
        "content-replacement", "attribution-snapshot", "history-suppression",
    }
)  # fmt: skip
_MESSAGE_TYPES: Final = frozenset({"user", "assistant"})
_QUIET_SYSTEM: Final = frozenset(
    {
        "", "bridge_status", "microcompact_boundary", "informational", "memory_saved", "agents_killed",
        "permission_retry", "api_metrics", "scheduled_task_fire", "file_snapshot", "thinking",
    }
)  # fmt: skip
_QUIET_ATTACHMENTS: Final = frozenset(
    {
        "hook_success", "task_reminder", "hook_additional_context", "edited_text_file", "deferred_tools_delta",
        "skill_listing", "mcp_instructions_delta", "command_permissions", "nested_memory", "diagnostics",
        "agent_listing_delta", "auto_mode", "date_change", "opened_file_in_ide", "plan_mode_exit", "ultra_effort_enter",
        "goal_status", "compact_file_reference", "plan_mode", "selected_lines_in_ide", "todo_reminder", "environment",
        "model", "session_context", "date", "remote_session_change", "prompt_snapshot", "total_tokens_reminder",
        "edited_image_file", "relevant_memories", "current_session_memory", "dynamic_skill", "skill_discovery",
        "invoked_skills", "output_style", "structured_output", "plan_mode_reentry", "plan_file_reference",
        "verify_plan_reminder", "auto_mode_exit", "ultra_effort_exit", "ultrathink_effort", "critical_system_reminder",
        "compaction_reminder", "context_efficiency", "token_usage", "output_token_usage", "budget_usd", "agent_mention",
        "task_status", "team_context", "teammate_mailbox", "teammate_shutdown_batch", "async_hook_response",
        "hook_permission_decision", "companion_intro", "workflow_keyword_request",
    }
)  # fmt: skip
# Levels of Claude Code's own messages that are shown; others are about its work.
_SHOWN_LEVELS: Final[dict[str | None, NoticeSeverity]] = {"warning": "warning", "error": "error"}
# Files, folders and resources that the user named in a prompt.
_NAMED_FILES: Final = frozenset({"file", "directory", "already_read_file", "pdf_reference", "mcp_resource"})
# Reports of hooks and limits, which Claude Code shows: the severity, and the title.
_REPORTS: Final[dict[str, tuple[NoticeSeverity, str]]] = {
    "hook_system_message": ("info", "Message of the hook {hook}"),
    "hook_non_blocking_error": ("warning", "The hook {hook} failed"),
    "hook_error_during_execution": ("warning", "The hook {hook} failed"),
    "hook_cancelled": ("warning", "The hook {hook} was cancelled"),
    "hook_blocking_error": ("warning", "The hook {hook} objected"),
    "hook_stopped_continuation": ("warning", "The hook {hook} ended the run"),
    "max_turns_reached": ("warning", "The limit of turns was reached"),
}
_PROGRESS: Final = frozenset(
    {"bash_progress", "agent_progress", "mcp_progress", "waiting_for_task", "query_update", "search_results_received"}
)


class ClaudeTranslator:
    def __init__(self, path: PurePath, sidecar: bytes = b"") -> None:
        self.unknown: Counter[str] = Counter()
        self._path = common.text_path(path)
        self._sidecar = common.decode_leniently(sidecar, records.Sidecar, records.Sidecar())
        self._out: list[Frame] = []
        self._at = 0.0
        self._main: Session | None = None
        self._is_agent = False  # the file is a sub-agent's
        self._scratch = Scratch()
        # Sub-agents within the file, by the first uuids of their chains.
        self._sub_agents: ObjectStore[Session] = ObjectStore(self._scratch, self._out)
        self._chains = MessageChains(self._scratch)
        self._seen = SpillingSet(self._scratch)  # uuids
        self._titles_by_leaf: dict[str, str] = {}  # by the last uuid of their conversation, which has not come yet
        self._early: list[tuple[Record, bytes]] = []  # before the first record of a session

    # -- lines

    def feed(self, line: bytes, offset: int) -> Sequence[Frame]:
        try:
            record = records.decode(line)
        except DECODE_ERRORS:
            for index, (decoded, text) in enumerate(common.decode_records(line, records.decode, records.build)):
                self._handle_record(Record() if decoded is None else decoded, text, offset, index)
        else:
            self._handle_record(record, line, offset, 0)
        if not self._out:
            return ()
        frames, self._out[:] = self._out[:], []
        return frames

    def finish(self) -> Iterator[Frame]:
        if self._main is None:
            for record, text in self._early:
                if record.type not in _HANDLERS:
                    self._out.append(self._native(self._session_id(record), record.type or "unreadable", text))
            self._early = []
        for session in chain(self._sub_agents.values(), [self._main]):
            if session is not None:
                session.finish(self._at)
            yield from self._out
            self._out.clear()

    def _handle_record(self, record: Record, text: bytes, offset: int, index: int) -> None:
        if record.uuid is None:
            if record.type in _MESSAGE_TYPES:
                record = msgspec.structs.replace(record, uuid=f"{offset}.{index}")
        elif not self._seen.add(record.uuid):
            return
        if record.timestamp is not None:
            self._at = common.parse_time(record.timestamp) or self._at
        if record.type in _BOOKKEEPING:
            return
        if self._main is None:
            if record.type not in _MESSAGE_TYPES and (record.cwd is None or record.type not in _HANDLERS):
                self._early.append((record, text))
                self._count(record)
                return
            self._main = self._open_main(record)
            for early, early_text in self._early:
                self._handle(self._main, early, early_text)
            self._early = []
        else:
            self._count(record)
        self._handle(self._main, record, text)
        if record.uuid in self._titles_by_leaf:
            self._main.settings.title(self._at, "summary", self._titles_by_leaf.pop(record.uuid))

    def _count(self, record: Record) -> None:
        if record.type not in _HANDLERS:
            self.unknown[record.type or "unreadable"] += 1

    def _handle(self, main: Session, record: Record, text: bytes) -> None:
        handler = _HANDLERS.get(record.type)
        if handler is None:
            self._out.append(self._native(main.id, record.type or "unreadable", text))
        else:
            self._chains.add(record)
            handler(self, self._session_of(main, record), record, text)

    def _add_unknown(self, session: Session, kind: str, text: bytes | msgspec.Raw) -> None:
        """Add a record of a known type that contains something of an unknown kind."""
        self.unknown[kind] += 1
        self._out.append(self._native(session.id, kind, text))

    def _native(self, session_id: str, kind: str, text: bytes | msgspec.Raw) -> Frame:
        return native_frame("claude", session_id, self._at, kind, text)

    # -- sessions

    def _open_main(self, record: Record) -> Session:
        self._is_agent = record.agent_id is not None and record.is_sidechain
        native = {
            "provider": "claude",
            "at": record.timestamp,
            "version": record.version,
            "gitBranch": record.git_branch,
        }
        meta: dict[str, Any] = {"native": {**native, "entrypoint": record.entrypoint}}
        if self._is_agent:
            meta["claudeCode"] = {
                "parentSessionId": record.session_id or "",  # empty if the file does not name it
                "parentToolUseId": self._sidecar.tool_use_id,
                "agentType": self._sidecar.agent_type,
            }
        session = Session(self._session_id(record), self._at, record, meta, self._out, self._scratch)
        if self._sidecar.description:
            session.settings.title(self._at, "ai", self._sidecar.description)
        return session

    def _session_id(self, record: Record) -> str:
        """Return the id in the name of the file. Records of a session resumed under another id keep the old one."""
        if self._is_agent:
            return record.agent_id or ""
        name = self._path.name.partition(".")[0]
        return name if len(name) == _UUID_LENGTH else record.session_id or name

    def _session_of(self, main: Session, record: Record) -> Session:
        if not record.is_sidechain or self._is_agent:
            return main
        root = self._chains.root_of(record)
        sub_agent = self._sub_agents.get(root)
        if sub_agent is None:
            self._sub_agents.evict()
            sub_agent = self._open_sub_agent(main, record, root)
            self._sub_agents.add(root, sub_agent)
        return sub_agent

    def _open_sub_agent(self, main: Session, record: Record, root: str) -> Session:
        session_id = f"{main.id}:{root}"
        prompt = "".join(block.text for block in records.decode_blocks(records.decode_message(record.message).content))
        call = main.calls.agent_with(prompt) if record.type == "user" else None
        link = {"parentSessionId": main.id, "parentToolUseId": call[0] if call else None}
        meta = {"native": {"provider": "claude", "at": record.timestamp, "version": record.version}, "claudeCode": link}
        sub_agent = Session(session_id, self._at, record, meta, self._out, self._scratch)
        if call is not None:
            main.link_sub_agent(self._at, call[0], sub_agent.id, partial(_end_turn, self._sub_agents, root))
            if call[1].description:
                sub_agent.settings.title(self._at, "ai", call[1].description)
        return sub_agent

    # -- records

    def _user(self, session: Session, record: Record, text: bytes) -> None:
        is_prompt = not record.is_meta and record.tool_use_result == records.ABSENT and not record.is_sidechain
        session.user(self._at, record, rewound_to=self._chains.rewound_to(record) if is_prompt else None)

    def _assistant(self, session: Session, record: Record, text: bytes) -> None:
        for block in session.assistant(self._at, record):
            self._add_unknown(session, f"assistant/{block.type}", record.message)

    def _system(self, session: Session, record: Record, text: bytes) -> None:
        match record.subtype or "":
            case "turn_duration":
                session.end_turn(self._at)
            case "stop_hook_summary":
                if errors := records.decode_texts(record.hook_errors):
                    session.report(self._at, record, "warning", errors, "A stop hook failed")
                session.on_stop_hooks(self._at)
            case "away_summary":
                session.report(self._at, record, "info", records.decode_text(record.content), "Recap")
            case "compact_boundary":
                session.report_compaction(self._at, record)
            case "local_command":
                session.handle_local_command(self._at, record, records.decode_text(record.content))
            case "api_error":
                session.runs.touch(self._at)
                self._notice(session, record, "warning", "The model's provider answered with an error; trying again")
            case "model_refusal_fallback":
                self._notice(session, record, "info", "The model refused; another one answers")
            case "model_refusal_no_fallback":
                self._notice(session, record, "warning", "The model refused")
            case "model_fallback" | "model_consent_fallback":
                self._notice(session, record, "info", "Another model answers")
            case subtype:
                if subtype not in _QUIET_SYSTEM:
                    self._add_unknown(session, f"system/{subtype}", text)
                elif record.level in _SHOWN_LEVELS and (words := records.plain_text(record.content)):
                    session.report(self._at, record, _SHOWN_LEVELS[record.level], words)

    def _notice(self, session: Session, record: Record, severity: NoticeSeverity, title: str) -> None:
        session.report(self._at, record, severity, "", records.decode_text(record.content) or title)

    def _attachment(self, session: Session, record: Record, text: bytes) -> None:
        attachment = common.decode_leniently(record.attachment, records.Attachment, records.Attachment())
        if attachment.type == "queued_command":
            session.handle_queued(self._at, record, records.decode_blocks(attachment.prompt))
        elif attachment.type in _NAMED_FILES:
            if link := records.link_to(attachment):
                session.attach(self._at, record, link)
        elif attachment.type in _REPORTS:
            severity, title = _REPORTS[attachment.type]
            title = title.format(hook=attachment.hook_name or "of the user")
            session.report(self._at, record, severity, records.report_text(attachment), title)
        elif attachment.type not in _QUIET_ATTACHMENTS:
            self._add_unknown(session, f"attachment/{attachment.type}", text)

    def _progress(self, session: Session, record: Record, text: bytes) -> None:
        progress = common.decode_leniently(record.data, records.Progress, records.Progress())
        if progress.type in _PROGRESS:
            session.calls.report_progress(self._at, record.parent_tool_use_id, native_meta(record))
            if progress.type == "agent_progress" and progress.agent_id and record.parent_tool_use_id:
                session.report_sub_agent(self._at, progress.agent_id, record.parent_tool_use_id, RunningStateUpdate())
        elif progress.type != "hook_progress":
            self._add_unknown(session, f"progress/{progress.type}", text)

    def _summary(self, session: Session, record: Record, text: bytes) -> None:
        """Set the title. Some files begin with summaries of other conversations: the last uuid says of which."""
        if record.summary is None or record.leaf_uuid is None:
            return
        if record.leaf_uuid in self._seen:
            session.settings.title(self._at, "summary", record.summary)
        else:
            self._titles_by_leaf[record.leaf_uuid] = record.summary

    def _title(self, session: Session, record: Record, text: bytes) -> None:
        if record.custom_title is not None:
            session.settings.title(self._at, "custom", record.custom_title)
        elif record.ai_title is not None:
            session.settings.title(self._at, "ai", record.ai_title)

    def _mode(self, session: Session, record: Record, text: bytes) -> None:
        if record.permission_mode is not None:
            session.settings.mode(self._at, record.permission_mode)

    def _cost(self, session: Session, record: Record, text: bytes) -> None:
        if record.total_cost_usd is not None:
            session.settings.cost(self._at, record.total_cost_usd)


_HANDLERS: Final[dict[str, Callable[[ClaudeTranslator, Session, Record, bytes], None]]] = {
    "user": ClaudeTranslator._user,
    "assistant": ClaudeTranslator._assistant,
    "system": ClaudeTranslator._system,
    "attachment": ClaudeTranslator._attachment,
    "progress": ClaudeTranslator._progress,
    "summary": ClaudeTranslator._summary,
    "ai-title": ClaudeTranslator._title,
    "custom-title": ClaudeTranslator._title,
    "permission-mode": ClaudeTranslator._mode,
    "cost-state": ClaudeTranslator._cost,
}


def _end_turn(sub_agents: ObjectStore[Session], root: str, at: float) -> None:
    if (sub_agent := sub_agents.get(root)) is not None:
        sub_agent.end_turn(at)


_UUID_LENGTH: Final = 36

# Records that other agents do not write, apart from messages; and those that other agents may write in another form.
_OWN_TYPES: Final = (_BOOKKEEPING | {"summary", "ai-title", "custom-title", "permission-mode"}) - {"mode", "tag"}
_CHAIN_TYPES: Final = frozenset({"attachment", "progress", "system"})


class _SignMessage(msgspec.Struct, frozen=True, gc=False):
    role: str = ""
    content: msgspec.Raw = records.ABSENT
    parts: msgspec.Raw = records.ABSENT  # in place of the content, in transcripts of Qwen Code


class _Sign(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """The fields by which a record is recognised."""

    type: str = ""
    session_id: str | None = None
    message_id: str | None = None
    leaf_uuid: str | None = None
    is_sidechain: bool | None = None
    message: _SignMessage | None = None


_decode_sign = msgspec.json.Decoder(_Sign).decode


class Claude:
    name = "claude"

    def folders(self, environment: Mapping[str, str], home: Path) -> Sequence[Path]:
        config_folder = environment.get("CLAUDE_CONFIG_DIR")
        return (Path(config_folder) / "projects" if config_folder else home / ".claude" / "projects",)

    def reads(self, path: PurePath) -> bool:
        return path.suffix == ".jsonl" and "tool-results" not in path.parts

    def sidecar(self, path: PurePath) -> PurePath | None:
        return path.with_suffix(".meta.json") if path.name.startswith("agent-") else None

    def earlier_parts(self, path: Path) -> Sequence[Path]:
        return ()

    def owns(self, line: bytes) -> bool:
        try:
            sign = _decode_sign(line)
        except DECODE_ERRORS:
            return False
        if sign.type in _OWN_TYPES:
            return any(id_ is not None for id_ in (sign.session_id, sign.message_id, sign.leaf_uuid))
        if sign.type in _CHAIN_TYPES:
            return sign.session_id is not None and sign.is_sidechain is not None
        message = sign.message
        if sign.type not in _MESSAGE_TYPES or sign.session_id is None or message is None:
            return False
        return message.role == sign.type and message.parts == records.ABSENT != message.content

    def translator(self, path: PurePath, sidecar: bytes = b"") -> Translator:
        return ClaudeTranslator(path, sidecar)


PROVIDER: Final = Claude()
