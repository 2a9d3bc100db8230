"""Codex's transcripts, from the flat files of 2025-08 to 0.166: `~/.codex/sessions/YYYY/MM/DD/rollout-….jsonl`.

One file is one thread, and a thread is a session; so is that of a sub-agent. A thread that was forked begins with a
copy of its parent: where the user forked it, the copy is told as its history; where it is a sub-agent's, it is the
parent's to tell, and left out here.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final

import msgspec

from dragoman.translate import frames
from dragoman.translate import records as common
from dragoman.translate.codex import prompts, records
from dragoman.translate.codex.forks import Fork, parent_of
from dragoman.translate.codex.session import Session
from dragoman.translate.codex.where import Where
from dragoman.translate.scratch import Scratch, SpillingSet
from dragoman.translate.translator import Frame, Translator
from dragoman.wire.messages import DECODE_ERRORS

# What Codex writes down for itself. Known, and nothing of it is the conversation.
_BOOKKEEPING: Final = frozenset(
    {"world_state", "token_usage_record", "inter_agent_communication_metadata", "security_risk_score", "session_state"}
    | {"retained_context"}
)
# What stands in the place of words that a script sent, where they are not known.
_UNKNOWN_WORDS: Final = "codex:code-mode-delivery:v1:incomplete:"
_TURNS: Final = frozenset({"task_started", "turn_started", "task_complete", "turn_complete", "turn_aborted"})

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
        self._seen = SpillingSet(self._scratch)  # lines; each has its time in it
        self._session: Session | None = None
        self._fork: Fork | None = None
        self._meta: tuple[Where, records.Payload] | None = None  # of a flat file whose session is not told yet
        self._folder: str | None = None  # that a flat file tells later

    # -- lines

    def feed(self, line: bytes, position: int) -> Sequence[Frame]:
        try:
            record = records.decode(line)
        except DECODE_ERRORS:
            self._carefully(line, position)
        else:
            self._take(record, line, position)
        if not self._out:
            return ()
        told, self._out[:] = self._out[:], []
        return told

    def _carefully(self, line: bytes, position: int) -> None:
        """A line that is not one record as expected."""
        for offset, (record, text) in enumerate(common.decode_records(line, records.decode, records.build)):
            if record is None:
                self._strange("unreadable", text)
            else:
                self._take(record, text, position + offset)

    def finish(self) -> Sequence[Frame]:
        where = Where(self._at, None, 0)
        if self._session is None and self._meta is not None:
            self._open_flat()
        if self._session is not None:
            self._session.finish(where)
        return self._out

    def _take(self, line: records.Line, text: bytes, position: int) -> None:
        if line.timestamp is not None and line.type:
            if not self._seen.add(text):
                return
            self._at = common.parse_time(line.timestamp) or self._at
        where = Where(self._at, line.timestamp, position)
        if line.payload is None:
            self._flat(where, line, text)
        elif line.type == "session_meta":
            self._began(where, line, line.payload)
        else:
            self._record(where, line, line.payload, text)

    # -- with an envelope

    def _began(self, where: Where, line: records.Line, meta: records.Payload) -> None:
        """The first one tells of the thread; others are its parent's, or repeat it."""
        if self._session is None:
            self._fork = Fork(meta, self._at)
            self._open(where, meta)
        elif self._fork is not None:
            self._fork.copies(line, self._at)

    def _record(self, where: Where, line: records.Line, payload: records.Payload, text: bytes) -> None:
        session = self._session or self._open(where, records.Payload())
        session.words.history = self._fork is not None and self._fork.copies(line, self._at)
        if session.words.history and not self._copied(session, where, line, payload):
            return
        if line.metadata is not None and not self._is_said(line.metadata):
            return
        match line.type:
            case "response_item":
                known = session.item(where, payload)
            case "event_msg":
                known = session.event(where, payload)
            case "turn_context":
                session.turn_context(where, payload)
                known = True
            case "compacted":
                session.compacted(where, "record", payload.message)
                known = True
            case "realtime_item":
                known = session.words.aloud(where, payload)
            case "inter_agent_communication":
                session.words.letter(where, payload)
                known = True
            case kind:
                known = kind in _BOOKKEEPING
        if not known:
            self._strange(_kind(line.type, payload), text)

    def _copied(self, session: Session, where: Where, line: records.Line, payload: records.Payload) -> bool:
        """Whether a record of the parent's is to be told here. Its turns and tokens are not."""
        if payload.type == "token_count" and line.type == "event_msg":
            if payload.info is not None:
                session.runs.copied_count(payload.info)
            return False
        if self._fork is None or self._fork.is_sub_agent:
            return False
        if payload.type in _TURNS:
            session.copied_turn_over(where)
            return False
        return True

    def _is_said(self, item: records.Provenance) -> bool:
        """Whether an item of the model's history was said in this thread."""
        if item.compaction_output or item.delivered_assistant_message.startswith(_UNKNOWN_WORDS):
            return False
        return not (item.inherited_user_message and self._fork is not None and self._fork.is_sub_agent)

    # -- flat

    def _flat(self, where: Where, line: records.Line, text: bytes) -> None:
        if line.record_type:
            return  # marks a state of the program
        payload = records.flat(text)
        if not line.type:
            if payload.id is None or payload.timestamp is None:
                self._strange("unreadable", text)
            elif self._session is None and self._meta is None:
                self._at = common.parse_time(payload.timestamp) or self._at
                self._meta = (Where(self._at, payload.timestamp, where.position), payload)
            return
        is_user = payload.type == "message" and payload.role == "user"
        if is_user and self._session is None:
            spoken = "".join(records.texts(payload.content))
            if prompts.is_injected(spoken):
                self._folder = prompts.folder_in(spoken) or self._folder
                return
        session = self._session or self._open_flat()
        if is_user:
            session.words.flat_user(where, payload)
        elif not session.item(where, payload):
            self._strange(payload.type, text)

    def _open_flat(self) -> Session:
        where, meta = self._meta or (Where(self._at, None, 0), records.Payload())
        return self._open(where, msgspec.structs.replace(meta, cwd=meta.cwd or self._folder))

    # -- the session

    def _open(self, where: Where, meta: records.Payload) -> Session:
        session_id = meta.id or self._id_in_path()
        told: dict[str, Any] = {
            "provider": "codex",
            "version": meta.cli_version,
            "originator": meta.originator,
            "modelProvider": meta.model_provider,
            "historyMode": meta.history_mode,
            "source": records.plain(meta.source),
            "git": records.plain(meta.git),
        }
        link = {
            "parentSessionId": parent_of(meta),
            "forkedFromId": meta.forked_from_id,
            "agentNickname": meta.agent_nickname,
            "agentRole": meta.agent_role,
        }
        extras = where.meta(**told)
        if any(link.values()):
            extras["codex"] = {key: value for key, value in link.items() if value is not None}
        name = self._name(session_id)
        self._session = Session(session_id, where, meta.cwd or "", extras, name, self._out, self._scratch)
        if len(_UUID.findall(self._path.name)) > 1:  # the thread's id, and one for what came of it after that
            self._session.taken_back(where)
        return self._session

    def _id_in_path(self) -> str:
        """A file without its beginning is known by its name."""
        found = _UUID.search(self._path.name)
        return found[0] if found else self._path.name.partition(".")[0]

    def _name(self, session_id: str) -> str | None:
        """What the index of threads calls it: the last line counts."""
        end = self._sidecar.rfind(f'"{session_id}"'.encode())
        if end < 0:
            return None
        start = self._sidecar.rfind(b"\n", 0, end) + 1
        line = self._sidecar[start:].partition(b"\n")[0]
        return records.read(line, _Named, _Named()).thread_name

    def _strange(self, kind: str, text: bytes) -> None:
        self.unknown[kind] += 1
        session_id = self._session.id if self._session is not None else self._id_in_path()
        self._out.append(frames.native("codex", session_id, self._at, kind, text))


class _Named(msgspec.Struct, frozen=True, gc=False):
    thread_name: str | None = None


def _kind(type_: str, payload: records.Payload) -> str:
    names = [type_, payload.type, payload.item.type if payload.item is not None else ""]
    return "/".join(name for name in names if name)


class Codex:
    name = "codex"

    def folders(self, environment: Mapping[str, str], home: Path) -> Sequence[Path]:
        told = environment.get("CODEX_HOME")
        base = Path(told) if told else home / ".codex"
        return tuple(base / folder for folder in _FOLDERS)

    def reads(self, path: PurePath) -> bool:
        return path.name.startswith("rollout-") and path.name.endswith((".jsonl", ".jsonl.zst"))

    def sidecar(self, path: PurePath) -> PurePath | None:
        """The index of threads, which has their names."""
        return next((parent.parent / _INDEX for parent in path.parents if parent.name in _FOLDERS), None)

    def translator(self, path: PurePath, sidecar: bytes = b"") -> Translator:
        return CodexTranslator(path, sidecar)


PROVIDER: Final = Codex()
