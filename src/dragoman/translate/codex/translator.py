"""Codex's transcripts, from the flat files of 2025-08 to 0.166: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`.

One file is one thread, and a thread is a session, also that of a sub-agent. A forked thread begins with a copy of its
parent: if the user forked it, the copy is translated as its history; in the thread of a sub-agent it is left out,
because the parent's own file has it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final
from uuid import UUID

import msgspec

from dragoman.translate import records as common
from dragoman.translate.codex import records
from dragoman.translate.codex.messages import folder_in, is_injected
from dragoman.translate.codex.records import RecordRef
from dragoman.translate.codex.session import Session
from dragoman.translate.frames import native_frame
from dragoman.translate.records import parse_time
from dragoman.translate.scratch import Scratch, SpillingSet
from dragoman.translate.translator import Frame, Translator
from dragoman.wire.messages import DECODE_ERRORS

# In the last record of the copy in a sub-agent's thread.
_NEWLY_SPAWNED: Final = b"You are the newly spawned agent"
# Longest time in which a copy is written, for files whose turns have no id with a time. Measured: 15 ms for 1,000
# records.
_COPY_TIME_S: Final = 2.0
_VERSION_7: Final = 7


class Fork:
    """Decides which records of a thread are copies from its parent. Give it each record after the first, in order."""

    def __init__(self, meta: records.Payload, at: float) -> None:
        source = records.plain(meta.source)
        self.is_sub_agent = isinstance(source, dict) and "subagent" in source
        self._id = meta.id or ""
        self._meta_at = at
        self._own_from = meta.subagent_history_start_ordinal
        self._born = _time_in(self._id) or (parse_time(meta.timestamp) if meta.timestamp else None) or at
        # A thread that refers to the history of another has no copy of it.
        refers = records.plain(meta.history_base) is not None
        self._is_copying = self._own_from is not None or (meta.forked_from_id is not None and not refers)
        self._turn_seen = False

    def is_copy(self, line: records.Line, at: float) -> bool:
        """Return True if the record belongs to the parent."""
        payload = line.payload or records.Payload()
        if line.type == "session_meta":
            if payload.id != self._id and 0 <= at - self._meta_at < _COPY_TIME_S and self._own_from is None:
                self._is_copying = True  # the first record of the parent
            return True
        if not self._is_copying:
            return False
        if self._ends(line, payload, at):
            self._is_copying = False
            return False
        if payload.type == "function_call_output" and _NEWLY_SPAWNED in bytes(memoryview(payload.output)[:200]):
            self._is_copying = False  # the last record of the copy
        return True

    def _ends(self, line: records.Line, payload: records.Payload, at: float) -> bool:
        """Return True if the thread's own history begins with this record."""
        if self._own_from is not None and line.ordinal is not None:
            return line.ordinal >= self._own_from
        if payload.type == "task_started" and payload.turn_id is not None:
            self._turn_seen = True
            began = _time_in(payload.turn_id)
            return began >= self._born if began is not None else self._is_copy_over(at)
        return not self._turn_seen and self._is_copy_over(at)

    def _is_copy_over(self, at: float) -> bool:
        return at - self._meta_at > _COPY_TIME_S


def _time_in(uuid: str) -> float | None:
    """Return the time in a UUID of version 7, in seconds since 1970; None for any other id."""
    try:
        value = UUID(uuid)
    except ValueError:
        return None
    return (value.int >> 80) / 1000 if value.version == _VERSION_7 else None


def parent_of(meta: records.Payload) -> str | None:
    """Return the id of the thread that started this sub-agent."""
    if meta.parent_thread_id is not None:
        return meta.parent_thread_id
    return records.read(meta.source, _Source, _Source()).subagent.thread_spawn.parent_thread_id


class _Spawn(msgspec.Struct, frozen=True, gc=False):
    parent_thread_id: str | None = None


class _SubAgent(msgspec.Struct, frozen=True, gc=False):
    thread_spawn: _Spawn = _Spawn()


class _Source(msgspec.Struct, frozen=True, gc=False):
    subagent: _SubAgent = _SubAgent()


# Records for Codex itself: known, and no part of the conversation.
_BOOKKEEPING: Final = frozenset(
    {"world_state", "token_usage_record", "inter_agent_communication_metadata", "security_risk_score", "session_state"}
    | {"retained_context"}
)
# Marks a message of a script whose text is not known.
_INCOMPLETE_DELIVERY: Final = "codex:code-mode-delivery:v1:incomplete:"
_TURN_EVENTS: Final = frozenset({"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"})

_UUID: Final = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FOLDERS: Final = ("sessions", "archived_sessions")
_INDEX: Final = "session_index.jsonl"


class CodexTranslator:
    def __init__(self, path: PurePath, sidecar: bytes = b"") -> None:
        self.unknown: Counter[str] = Counter()
        self._path = common.text_path(path)
        self._sidecar = sidecar
        self._out: list[Frame] = []
        self._at = 0.0
        self._scratch = Scratch()
        self._seen = SpillingSet(self._scratch)  # lines; each contains its time
        self._session: Session | None = None
        self._fork: Fork | None = None
        self._meta: tuple[RecordRef, records.Payload] | None = None  # of a flat file, until its session begins
        self._folder: str | None = None  # of a flat file, which has it after its first record

    # -- lines

    def feed(self, line: bytes, offset: int) -> Sequence[Frame]:
        try:
            record = records.decode(line)
        except DECODE_ERRORS:
            self._feed_leniently(line, offset)
        else:
            self._handle_line(record, line, offset)
        if not self._out:
            return ()
        frames, self._out[:] = self._out[:], []
        return frames

    def _feed_leniently(self, line: bytes, offset: int) -> None:
        """Decode a line that is not exactly one record with the expected fields."""
        for index, (record, text) in enumerate(common.decode_records(line, records.decode, records.build)):
            if record is None:
                self._add_unknown("unreadable", text)
            else:
                self._handle_line(record, text, offset + index)

    def finish(self) -> Sequence[Frame]:
        ref = RecordRef(self._at, None, 0)
        if self._session is None and self._meta is not None:
            self._open_flat()
        if self._session is not None:
            self._session.finish(ref)
        return self._out

    def _handle_line(self, line: records.Line, text: bytes, offset: int) -> None:
        if line.timestamp is not None and line.type:
            if not self._seen.add(text):
                return
            self._at = common.parse_time(line.timestamp) or self._at
        ref = RecordRef(self._at, line.timestamp, offset)
        if line.payload is None:
            self._flat(ref, line, text)
        elif line.type == "session_meta":
            self._handle_meta(ref, line, line.payload)
        else:
            self._record(ref, line, line.payload, text)

    # -- with an envelope

    def _handle_meta(self, ref: RecordRef, line: records.Line, meta: records.Payload) -> None:
        """Open the session by the first one; others belong to the parent, or repeat the first."""
        if self._session is None:
            self._fork = Fork(meta, self._at)
            self._open(ref, meta)
        elif self._fork is not None:
            self._fork.is_copy(line, self._at)

    def _record(self, ref: RecordRef, line: records.Line, payload: records.Payload, text: bytes) -> None:
        session = self._session or self._open(ref, records.Payload())
        session.messages.history = self._fork is not None and self._fork.is_copy(line, self._at)
        if session.messages.history and not self._handle_copied(session, ref, line, payload):
            return
        if line.metadata is not None and not self._belongs_here(line.metadata):
            return
        match line.type:
            case "response_item":
                is_known = session.item(ref, payload)
            case "event_msg":
                is_known = session.event(ref, payload)
            case "turn_context":
                session.turn_context(ref, payload)
                is_known = True
            case "compacted":
                session.report_compaction(ref, "record", payload.message)
                is_known = True
            case "realtime_item":
                is_known = session.messages.voice_item(ref, payload)
            case "inter_agent_communication":
                session.messages.agent_message(ref, payload)
                is_known = True
            case kind:
                is_known = kind in _BOOKKEEPING
        if not is_known:
            self._add_unknown(_kind(line.type, payload), text)

    def _handle_copied(self, session: Session, ref: RecordRef, line: records.Line, payload: records.Payload) -> bool:
        """Return True if a record of the parent is translated here; its turns and tokens are not."""
        if payload.type == "token_count" and line.type == "event_msg":
            if payload.info is not None:
                session.runs.skip_copied_tokens(payload.info)
            return False
        if self._fork is None or self._fork.is_sub_agent:
            return False
        if payload.type in _TURN_EVENTS:
            session.end_copied_turn(ref)
            return False
        return True

    def _belongs_here(self, item: records.Provenance) -> bool:
        """Return True if an item of the model's history belongs to this thread."""
        if item.compaction_output or item.delivered_assistant_message.startswith(_INCOMPLETE_DELIVERY):
            return False
        return not (item.inherited_user_message and self._fork is not None and self._fork.is_sub_agent)

    # -- flat

    def _flat(self, ref: RecordRef, line: records.Line, text: bytes) -> None:
        if line.record_type:
            return  # marks a state of Codex
        payload = records.flat(text)
        if not line.type:
            if payload.id is None or payload.timestamp is None:
                self._add_unknown("unreadable", text)
            elif self._session is None and self._meta is None:
                self._at = common.parse_time(payload.timestamp) or self._at
                self._meta = (RecordRef(self._at, payload.timestamp, ref.offset), payload)
            return
        is_user = payload.type == "message" and payload.role == "user"
        if is_user and self._session is None:
            text_content = "".join(records.texts(payload.content))
            if is_injected(text_content):
                self._folder = folder_in(text_content) or self._folder
                return
        session = self._session or self._open_flat()
        if is_user:
            session.messages.flat_user_item(ref, payload)
        elif not session.item(ref, payload):
            self._add_unknown(payload.type, text)

    def _open_flat(self) -> Session:
        ref, meta = self._meta or (RecordRef(self._at, None, 0), records.Payload())
        return self._open(ref, msgspec.structs.replace(meta, cwd=meta.cwd or self._folder))

    # -- the session

    def _open(self, ref: RecordRef, meta: records.Payload) -> Session:
        session_id = meta.id or self._id_in_path()
        native: dict[str, Any] = {
            "provider": "codex",
            "version": meta.cli_version,
            "originator": meta.originator,
            "modelProvider": meta.model_provider,
            "historyMode": meta.history_mode,
            "source": records.plain(meta.source),
            "git": records.plain(meta.git),
        }
        is_sub_agent = self._fork is not None and self._fork.is_sub_agent
        link = {
            # Empty for a sub-agent whose parent the file does not name.
            "parentSessionId": parent_of(meta) or ("" if is_sub_agent else None),
            "forkedFromId": meta.forked_from_id,
            "agentNickname": meta.agent_nickname,
            "agentRole": meta.agent_role,
        }
        extras = ref.meta(**native)
        if any(value is not None for value in link.values()):
            extras["codex"] = {key: value for key, value in link.items() if value is not None}
        name = self._name(session_id)
        self._session = Session(session_id, ref, meta.cwd or "", extras, name, self._out, self._scratch)
        if records.plain(meta.history_base) is not None:
            self._session.runs.skip_base_tokens()
        if len(_UUID.findall(self._path.name)) > 1:  # the thread's id, and one of the rollback
            self._session.report_rollback(ref)
        return self._session

    def _id_in_path(self) -> str:
        """Return the id of the thread in the name of the file."""
        match = _UUID.search(self._path.name)
        return match[0] if match else self._path.name.partition(".")[0]

    def _name(self, session_id: str) -> str | None:
        """Return the name of the thread in the index, from its last line there."""
        end = self._sidecar.rfind(f'"{session_id}"'.encode())
        if end < 0:
            return None
        start = self._sidecar.rfind(b"\n", 0, end) + 1
        line = self._sidecar[start:].partition(b"\n")[0]
        return records.read(line, _IndexEntry, _IndexEntry()).thread_name

    def _add_unknown(self, kind: str, text: bytes) -> None:
        self.unknown[kind] += 1
        session_id = self._session.id if self._session is not None else self._id_in_path()
        self._out.append(native_frame("codex", session_id, self._at, kind, text))


class _IndexEntry(msgspec.Struct, frozen=True, gc=False):
    thread_name: str | None = None


def _kind(type_: str, payload: records.Payload) -> str:
    names = [type_, payload.type, payload.item.type if payload.item is not None else ""]
    return "/".join(name for name in names if name)


# Types of lines with an envelope.
_ENVELOPES: Final = (
    frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"}) | _BOOKKEEPING
)


class _Sign(msgspec.Struct, frozen=True, gc=False):
    """The fields by which a record is recognised."""

    type: str = ""
    timestamp: str | None = None
    payload: msgspec.Raw = records.ABSENT
    record_type: str = ""
    id: str | None = None
    instructions: msgspec.Raw = msgspec.Raw(b"")  # may be null


_decode_sign = msgspec.json.Decoder(_Sign).decode


class Codex:
    name = "codex"

    def folders(self, environment: Mapping[str, str], home: Path) -> Sequence[Path]:
        codex_home = environment.get("CODEX_HOME")
        base = Path(codex_home) if codex_home else home / ".codex"
        return tuple(base / folder for folder in _FOLDERS)

    def reads(self, path: PurePath) -> bool:
        return path.name.startswith("rollout-") and path.name.endswith((".jsonl", ".jsonl.zst"))

    def sidecar(self, path: PurePath) -> PurePath | None:
        """Return the path of the index of threads, which has their names."""
        return next((parent.parent / _INDEX for parent in path.parents if parent.name in _FOLDERS), None)

    def earlier_parts(self, path: Path) -> Sequence[Path]:
        """Return the files of a thread before a rollback: beside this file, or in the folders of other days."""
        if len(ids := _UUID.findall(path.name)) < 2 or not self.reads(path):
            return ()
        root = next((parent for parent in path.parents if parent.name in _FOLDERS), None)
        pattern = f"rollout-*{ids[0]}*"
        found = path.parent.glob(pattern) if root is None else root.glob(f"**/{pattern}")
        earlier = [other for other in found if self.reads(other) and other.name < path.name]
        return sorted(earlier, key=lambda other: other.name)  # the names begin with the time

    def owns(self, line: bytes) -> bool:
        try:
            sign = _decode_sign(line)
        except DECODE_ERRORS:
            return False
        if sign.type in _ENVELOPES:
            return sign.timestamp is not None and bytes(sign.payload).startswith(b"{")
        if not sign.type:  # a flat file
            has_meta = sign.id is not None and sign.timestamp is not None and len(bytes(sign.instructions)) > 0
            return has_meta or sign.record_type == "state"
        return False

    def translator(self, path: PurePath, sidecar: bytes = b"") -> Translator:
        return CodexTranslator(path, sidecar)


PROVIDER: Final = Codex()
