"""`ConnectionRecorder`: the frames of one connection, folded at once and written to a journal in batches.

While one batch is being committed the next one gathers. A connection to an agent awaits `flush` after each read, which
bounds how much may wait; programs that add frames by themselves await `ready`. Each frame is handed to its session's
listener once it is committed, in the order in which the frames were added.

`FairScheduler` (`scheduler.py`) shares the loop between the connections.

Frames of an agent are stored as they are, whatever they contain. Of frames that Dragoman sends, `redact` replaces
secrets and long responses.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from dragoman.journal.entry import UPDATE_KINDS, Cursor, Entry, Origin, entry_kind, read_message, stored_frame
from dragoman.journal.errors import JournalError
from dragoman.journal.protocols import Connection, Journal
from dragoman.journal.rows import RowChanges
from dragoman.journal.scheduler import scheduler_of_loop
from dragoman.journal.session_record import SessionRecord
from dragoman.record.facts import Fact
from dragoman.wire.messages import DECODE_ERRORS, Message, Reply, Request, Update

logger = logging.getLogger(__name__)

# Longer responses are files, which are on the disk anyway, and terminal output, which the agent polls again and again,
# each time with all of it.
MAX_ANSWER_BYTES: Final = 64 * 1024

# A shorter secret is not looked for by its value: it would be found within ordinary words.
_MIN_SECRET_CHARACTERS: Final = 6

# Secret parts of a URL: user and password, and everything after `?`, `#` and `;`.
_URL_SECRETS: Final = re.compile(r"(?<=://)[^/@]+(?=@)|(?<=[?#;]).+")
_URL_WORDS: Final = re.compile(r"[^/:.@?#;\[\]]+")

# Arguments and names of options that mention a secret. Short names are only meant as words of their own.
_MENTIONS_SECRET: Final = re.compile(
    r"key|token|secret|passw|passphrase|credential|auth|bearer|cookie|://[^/]*@"
    r"|^--?(?:[\w-]*[_-])?(?:pat|pwd|pass|pw|jwt|sig)(?:$|[=_-])",
    re.IGNORECASE,
)
_HEADER_OPTIONS: Final = frozenset({"-H", "--header", "--headers"})
_PASSWORD_OR_PORT: Final = frozenset({"-p"})

# Words that are keys by their first letters, as services issue them; and words of random letters and digits.
_ISSUED_KEY: Final = re.compile(
    r"(?:gh[pousr]_|github_pat_|glpat-|sk-|[spr]k_|xox[abeoprs]-|AKIA|ASIA|AIza|hf_|npm_|pypi-|eyJ|ya29\.|shpat_|SG\.)\S{4}"
)
_RANDOM_WORD: Final = re.compile(r"[\w+=~.-]{20,}", re.ASCII)


def _is_key(word: str) -> bool:
    """Return whether a word looks like a key, by its first letters or because it looks random."""
    if _ISSUED_KEY.match(word) is not None:
        return True
    if _RANDOM_WORD.fullmatch(word) is None:
        return False
    digits = sum(map(str.isdigit, word))
    return digits >= 6 or (digits >= 2 and word.lower() != word and word.upper() != word)


def redact(message: Message, secrets: Mapping[str, str]) -> bytes | None:
    """Return the line to store for a message of ours; None where it is stored as it is. `secrets`: values by name."""
    match message:
        case Reply(line=line) if len(line) > MAX_ANSWER_BYTES and message.error is None:
            summary = {"length": len(message.result), "sha256": hashlib.sha256(message.result).hexdigest()}
            return msgspec.json.encode({"jsonrpc": "2.0", "id": message.id, "result": {"_dragoman": summary}})
        case Request(line=line):
            redacted = _without_values(_without_server_secrets(line), secrets)
        case _:
            line = getattr(message, "line", b"")
            redacted = _without_values(line, secrets)
    return redacted if redacted != line else None


def _without_server_secrets(line: bytes) -> bytes:
    """Replace every value in the environment, headers and `_meta` of MCP servers, and what may be a key in their URLs
    and arguments."""
    if b'"mcpServers"' not in line:
        return line
    try:
        frame = msgspec.json.decode(line)
    except DECODE_ERRORS:
        return line
    params = frame.get("params") if isinstance(frame, dict) else None
    servers = params.get("mcpServers") if isinstance(params, dict) else None
    changed = False
    for server in servers if isinstance(servers, list) else []:
        if isinstance(server, dict):
            changed = _hide(server) or changed
    return msgspec.json.encode(frame) if changed else line


def _hide(server: dict[str, Any]) -> bool:
    """Replace the secrets of a server; return whether there was any."""
    before = msgspec.json.encode(server)
    for field in ("env", "headers"):
        for pair in _as_list(server.get(field)):
            if isinstance(pair, dict) and pair.get("value"):
                pair["value"] = _placeholder(str(pair.get("name")))
        if isinstance(values := server.get(field), dict):
            server[field] = {name: _placeholder(str(name)) for name in values}
    if isinstance(url := server.get("url"), str):
        server["url"] = _url(url)
    if arguments := _as_list(server.get("args")):
        server["args"] = list(_arguments(arguments))
    if server.get("_meta"):
        server["_meta"] = {"_dragoman": _placeholder("_meta")}
    return before != msgspec.json.encode(server)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _url(url: str) -> str:
    """Replace what is always secret in a URL, and words of its host and path that look like keys."""
    hidden = _placeholder("url")
    scheme, separator, rest = url.partition("://")
    rest = _URL_WORDS.sub(lambda word: hidden if _is_key(word[0]) else word[0], rest)
    return _URL_SECRETS.sub(hidden, f"{scheme}{separator}{rest}")


def _arguments(arguments: Sequence[Any]) -> Iterator[Any]:
    """Replace `--key VALUE`, `--key=VALUE`, the values of headers, and everything else that may be a secret."""
    secret_option = ""  # its value is the next argument
    for argument in arguments:
        option, equals, value = str(argument).partition("=")
        is_option = option.startswith("-")
        mentions_secret = _MENTIONS_SECRET.search(str(argument)) is not None
        is_value = secret_option and not option.startswith("--")
        if is_value and not (secret_option in _PASSWORD_OR_PORT and _is_plain(option)):
            yield _placeholder("args" if secret_option in _HEADER_OPTIONS else secret_option)
            secret_option = ""
            continue
        if is_option and (mentions_secret or _is_key(value)):
            yield f"{option}={_placeholder(option)}" if value else argument
        else:
            yield _placeholder("args") if mentions_secret or _is_key(str(argument)) else _without_url_secrets(argument)
        takes_secret = mentions_secret or option in _HEADER_OPTIONS | _PASSWORD_OR_PORT
        secret_option = option if is_option and not equals and takes_secret else ""


def _is_plain(value: str) -> bool:
    """Return whether the value of `-p` is a port, a path or a package, and no password."""
    return value.isdecimal() or "/" in value


def _without_url_secrets(argument: Any) -> Any:
    return _url(argument) if isinstance(argument, str) and "://" in argument else argument


def _without_values(line: bytes, secrets: Mapping[str, str]) -> bytes:
    for name, value in secrets.items():
        if len(value) >= _MIN_SECRET_CHARACTERS:
            # As it is written within a JSON string.
            line = line.replace(msgspec.json.encode(value)[1:-1], msgspec.json.encode(_placeholder(name))[1:-1])
    return line


def _placeholder(name: str) -> str:
    return f"[secret:{name}]"


# Frames that may wait for the disk: the next commit of a burst. A slow disk then slows the agent, a kill loses only
# frames that nobody has seen, and reporting one commit occupies the event loop for a millisecond or two.
# (Measured: with more a burst is no faster.)
MAX_WAITING_BYTES: Final = 1024 * 1024

_OURS: Final = ("client", "host")


class RecordedFrame(msgspec.Struct, gc=False):
    """A frame on its way into the journal, and what it changed.

    `context` belongs to the caller: a session puts the run of the frame there. Not tracked by the garbage collector,
    which would look at each of a hundred thousand again and again while they wait.
    """

    entry: Entry
    message: Message
    facts: Sequence[Fact]
    context: object


OnCommitted: TypeAlias = Callable[[RecordedFrame], None]


class _Handshake(msgspec.Struct, frozen=True):
    """The agent's answer to `initialize`. Names as on the wire; parts are stored verbatim."""

    protocolVersion: int | None = None  # noqa: N815
    agentCapabilities: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815
    agentInfo: msgspec.Raw = msgspec.Raw(b"")  # noqa: N815


class _Batch:
    def __init__(self) -> None:
        self.frames: list[RecordedFrame] = []
        self.size_bytes = 0
        self.done = asyncio.Event()  # handed to the listeners, or not to be


class ConnectionRecorder:
    """`frame_count` is the number of the connection's frames that the journal has already; `secrets` are the values, by
    name, that must not be stored of what we send."""

    def __init__(
        self,
        journal: Journal,
        connection: Connection,
        *,
        frame_count: int = 0,
        secrets: Mapping[str, str] = {},
        max_waiting_bytes: int = MAX_WAITING_BYTES,
    ) -> None:
        self._journal = journal
        self._connection = connection
        self._connection_id = connection.id
        self._frame_count = frame_count
        self._frame_count_of_last_read = frame_count
        self._max_waiting_bytes = max_waiting_bytes
        self._scheduler = scheduler_of_loop()
        self._secrets = secrets
        self._records: dict[str, SessionRecord] = {}
        self._listeners: dict[str | None, OnCommitted] = {}
        self._epochs: dict[str, int] = {}
        self._touched: dict[str, SessionRecord] = {}
        self._batch = _Batch()
        self._last_batch: _Batch | None = None  # the last one that was taken to be committed
        self._committing: tuple[_Batch, Sequence[RowChanges]] | None = None
        self._task: asyncio.Task[None] | None = None
        self._error: JournalError | None = None
        self._room = asyncio.Event()
        self._room.set()
        self.cursor: Cursor | None = None  # after the last frame that is committed

    @property
    def error(self) -> JournalError | None:
        """Why nothing more is committed; `flush` tries again."""
        return self._error

    async def record_handshake(self, answer: msgspec.Raw) -> None:
        """Store the agent's description of itself with the connection."""
        try:
            handshake = msgspec.json.decode(answer, type=_Handshake)
        except DECODE_ERRORS:
            return
        self._connection = msgspec.structs.replace(
            self._connection,
            protocol_version=handshake.protocolVersion,
            capabilities=handshake.agentCapabilities or None,
            agent_info=handshake.agentInfo or None,
        )
        await self._journal.register_connection(self._connection)

    # -- sessions

    def add_session(self, record: SessionRecord, epoch: int | None = None) -> None:
        """Fold the session's frames into this record; `epoch` where this process has claimed the session."""
        self._records[record.session_id] = record
        if epoch is not None:
            self._epochs[record.session_id] = epoch

    def listen(self, session_id: str | None, on_committed: OnCommitted) -> None:
        """Hand each of the session's frames to `on_committed` once it is committed; None for those of no session."""
        self._listeners[session_id] = on_committed

    def remove_session(self, session_id: str) -> None:
        """Forget a session that has left the connection. Its frames that were added before are still committed."""
        self._records.pop(session_id, None)
        self._listeners.pop(session_id, None)

    # -- frames

    def add(
        self, origin: Origin, message: Message, at: float, session_id: str | None = None, context: object = None
    ) -> Sequence[Fact]:
        """Take a frame and return what it changed. It is committed later: listener, `flush` and `ready` tell when."""
        self._frame_count = number = self._frame_count + 1
        if type(message) is Update:  # nearly all are, and pay for nothing else
            frame = message.line
            kind = UPDATE_KINDS.get(type(message.update)) or entry_kind(message)
            entry = Entry(self._connection_id, session_id, number, at, origin, kind, frame)
        else:
            frame = stored_frame(message)
            entry = Entry(self._connection_id, session_id, number, at, origin, entry_kind(message), frame)
            if origin in _OURS and (redacted := redact(message, self._secrets)) is not None:
                # Folded as it is stored, so that it folds to the same rows again.
                entry = msgspec.structs.replace(entry, frame=redacted.rstrip(b"\n"))
                message, frame = read_message(entry), entry.frame
        facts: Sequence[Fact] = ()
        if session_id is not None and (record := self._records.get(session_id)) is not None:
            self._touched[session_id] = record
            facts = record.add(entry, message)
        batch = self._batch
        batch.frames.append(RecordedFrame(entry, message, facts, context))
        batch.size_bytes += len(frame)
        if self._task is None and self._error is None:
            self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
        if batch.size_bytes > self._max_waiting_bytes:
            self._room.clear()
        return facts

    async def ready(self) -> None:
        """Return when more may be added; raise when the journal has failed."""
        size_bytes = self._batch.size_bytes
        if not self._room.is_set():
            await self._room.wait()
        await self._scheduler.acquire(size_bytes)
        if self._error is not None:
            raise self._error

    async def wait_for_turn(self) -> None:
        """Return when the connection may be read on. To be called after each read.

        A read that brought frames is held up by their own commit; one without waits for the commits of the others.
        """
        has_frames = self._frame_count != self._frame_count_of_last_read
        self._frame_count_of_last_read = self._frame_count
        if not has_frames:
            await self._scheduler.wait_for_commits()

    async def flush(self) -> Cursor | None:
        """Return when all that was added is committed. After a failure it tries again, from where it failed."""
        self._error = None
        while self._task is not None or self._committing is not None or self._batch.frames:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(self._commit_all(), name="dragoman recorder")
            await asyncio.shield(self._task)
            if self._error is not None:
                raise self._error
        return self.cursor

    async def handed_on(self) -> None:
        """Return when the listeners have all that was added so far, or the journal has failed."""
        batch = self._batch if self._batch.frames else self._last_batch
        if batch is not None and self._error is None:
            await batch.done.wait()

    async def _commit_all(self) -> None:
        try:
            while self._committing is not None or self._batch.frames:
                if self._committing is None:
                    self._committing = self._take_batch()
                batch, changes = self._committing
                entries = [frame.entry for frame in batch.frames]
                self.cursor = await self._journal.append(entries, changes, epochs=self._epochs_of(entries))
                self._committing = None
                if self._listeners:
                    await self._scheduler.acquire(batch.size_bytes)
                    self._notify(batch)
                batch.done.set()
        except JournalError as error:
            # The batch stays: its frames are the next ones of this connection, and may still be written.
            logger.warning("nothing more of connection %s is recorded: %s", self._connection_id, error)
            self._error = error
            self._room.set()
            for waited in (self._last_batch, self._batch):
                if waited is not None:
                    waited.done.set()
        finally:
            self._task = None

    def _take_batch(self) -> tuple[_Batch, Sequence[RowChanges]]:
        batch = self._last_batch = self._batch
        self._batch = _Batch()
        touched, self._touched = self._touched, {}
        self._room.set()
        return batch, [record.take() for record in touched.values()]

    def _notify(self, batch: _Batch) -> None:
        listeners = self._listeners
        for frame in batch.frames:
            on_committed = listeners.get(frame.entry.session_id)
            if on_committed is not None:
                on_committed(frame)

    def _epochs_of(self, entries: Sequence[Entry]) -> dict[str, int]:
        if not self._epochs:
            return {}
        sessions = {entry.session_id for entry in entries}
        return {session_id: epoch for session_id, epoch in self._epochs.items() if session_id in sessions}
