"""`recorded`: an agent that is recorded once and played from then on, for tests that need a real one's behaviour.

    @pytest.fixture
    def launch(request):
        return recorded(Path(__file__).parent / "recordings" / f"{request.node.name}.jsonl", scrub=True)

    async def test_it_fixes_the_test(launch, tmp_path):
        async with AgentRuntime(spec, launch=launch) as runtime: …

The first time, the agent of the spec is started, and the conversation is written to the file when it has ended. From
then on the file is played, without the agent: no process, no account, no network. `DRAGOMAN_RECORD=always` records
again, `DRAGOMAN_RECORD=never` makes a missing file an error, which is right where tests run unattended.

`scrub` removes secrets and the paths of this machine from a recording. A secret becomes `[secret]`: the values in `env`
and `headers` of MCP servers, texts that look like a key of a known kind, and those that the caller names. The workspace
of each session is renamed to `/workspace`, and other folders as the caller says. A scrubbed recording still plays:
folders are replaced by those of the client, and any text matches where a prompt had a secret.

Not promised: that nothing is left. A key of an unknown kind, or one that an agent spells out letter by letter, is not
found; look at a recording before you publish it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from dragoman.agents.replay.frames import SECRET, folder_pattern, json_text, substitute
from dragoman.agents.replay.playback import PlaybackOptions
from dragoman.agents.replay.player import Player, serve
from dragoman.agents.replay.recording import OPENING_METHODS, read_recording
from dragoman.errors import InputError
from dragoman.proc.link import END_GRACE_S, AgentLink
from dragoman.session.link import launch as launch_process
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.testing.memory import MemoryLink
from dragoman.testing.scripted import AgentMain, AgentSide
from dragoman.testing.tee import RecordedLink, Tee
from dragoman.wire.messages import DECODE_ERRORS

When: TypeAlias = Literal["missing", "always", "never"]
VARIABLE: Final = "DRAGOMAN_RECORD"


def recorded(
    path: str | os.PathLike[str],
    *,
    when: When | None = None,
    launch: Launch = launch_process,
    strict: bool = True,
    real_time: bool = False,
    scrub: bool = False,
) -> Recorder | Replayer:
    """Return a `launch` for `AgentRuntime`, on a recording.

    `when` to record, else as `DRAGOMAN_RECORD` says, else where the file is missing. `strict`: a prompt or a decision
    that is not the recorded one is an error that shows the difference; else the next recorded turn answers whatever is
    asked. `scrub`: keep no secrets and no paths of this machine.
    """
    chosen = when or os.environ.get(VARIABLE) or "missing"
    if chosen not in get_args(When):
        raise InputError(f"{VARIABLE}={chosen!r}: it is one of {', '.join(get_args(When))}")
    path = Path(path)
    if chosen == "always" or (chosen == "missing" and not path.exists()):
        return Recorder(path, launch, scrub)
    if not path.exists():
        raise InputError(
            f"there is no recording {path}",
            guidance=f"Record it once, where the agent is installed: {VARIABLE}=missing pytest …",
        )
    return Replayer(path, PlaybackOptions(strict=strict, real_time=real_time))


class Replayer:
    """A `Launch`. Each time that it is called is a connection of the recording, in this order."""

    def __init__(self, path: Path, manner: PlaybackOptions) -> None:
        self._path = path
        self._recording = read_recording(path.read_bytes().splitlines(), name=str(path))
        self._manner = manner
        self._launched = 0

    async def __call__(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        self._launched += 1
        if self._launched > len(self._recording.connections):
            raise InputError(
                f"{self._path} has {len(self._recording.connections)} connections, and the agent is started once more",
                guidance=f"Record again: {VARIABLE}=always pytest …",
            )
        player = Player(self._recording, self._manner, connection=self._launched)
        return MemoryLink(played(player), name=spec.name, on_stderr=on_stderr)


class Recorder:
    """A `Launch` of real agents. Each time that it is called is one more connection of the recording."""

    def __init__(self, path: Path, launch: Launch, scrub: bool) -> None:
        self._path = path
        self._launch = launch
        self._scrub = scrub
        self._connections: list[list[bytes]] = []
        self._secrets: set[str] = set()

    async def __call__(self, spec: AgentSpec, limits: Limits, on_stderr: Callable[[str], None]) -> AgentLink:
        lines: list[bytes] = []
        self._connections.append(lines)
        self._secrets.update(secrets_in({**os.environ, **spec.env}))
        link = await self._launch(spec, limits, on_stderr)
        return _KeptLink(link, Tee(lines.append), self._keep)

    def _keep(self) -> None:
        """Write the whole recording, or nothing: half a recording would play half each time."""
        lines = [line for connection in self._connections for line in connection]
        if self._scrub:
            home = os.path.expanduser("~")
            lines = scrub(lines, folders={home: HOME, os.path.realpath(home): HOME}, secrets=self._secrets)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        unfinished.write_bytes(b"".join(lines))
        unfinished.replace(self._path)


class _KeptLink(RecordedLink):
    """Tells when the agent has ended: then all was said."""

    def __init__(self, link: AgentLink, tee: Tee, ended: Callable[[], None]) -> None:
        super().__init__(link, tee)
        self._ended = ended

    async def end(self, grace: float = END_GRACE_S) -> int:
        code = await super().end(grace)
        self._ended()
        return code


def played(player: Player) -> AgentMain:
    """Return a player as an agent in memory."""

    async def main(side: AgentSide) -> int:
        await serve(side, player)
        return 0

    return main


WORKSPACE: Final = "/workspace"
HOME: Final = "/home/user"

# Shorter ones are no secrets, and would be found in every other word.
MIN_SECRET_CHARACTERS: Final = 8

# Keys of kinds that agents are used with: model providers, code hosts, clouds; tokens that say what they are.
_KEYS: Final = re.compile(
    rb"\b(?:sk|pk|rk)-[\w-]{16,}"
    rb"|\bsk_(?:live|test)_\w{16,}"
    rb"|\bgh[pousr]_\w{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w-]{16,}"
    rb"|\bAIza[\w-]{30,}|\bAKIA[0-9A-Z]{16}\b|\bxox[abprs]-[\w-]{10,}|\bhf_\w{20,}|\bxai-\w{20,}|\bnpm_\w{30,}"
    rb"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}"
    rb"|(?i:(?<=bearer ))[\w.~+/=-]{16,}"
)

_NAMES: Final = re.compile(r"key|token|secret|password|passwd|credential", re.IGNORECASE)


class _Value(msgspec.Struct, frozen=True):
    value: str = ""


class _Server(msgspec.Struct, frozen=True):
    env: tuple[_Value, ...] = ()
    headers: tuple[_Value, ...] = ()


class _Params(msgspec.Struct, frozen=True):
    cwd: str = ""
    mcpServers: tuple[msgspec.Raw, ...] = ()  # noqa: N815 (the wire's name)


class _Frame(msgspec.Struct, frozen=True):
    method: str = ""
    params: msgspec.Raw = msgspec.Raw(b"{}")


class _Line(msgspec.Struct, frozen=True):
    frame: _Frame = _Frame()


def secrets_in(environment: Mapping[str, str | None]) -> list[str]:
    """Return the values of variables whose names say that they are secret."""
    return [value for name, value in environment.items() if value and _NAMES.search(name)]


def scrub(
    lines: Iterable[bytes], *, folders: Mapping[str, str] | None = None, secrets: Collection[str] = ()
) -> list[bytes]:
    """Return the recording's lines without secrets. `folders` maps folders to their new names."""
    lines = list(lines)
    openings = [params for line in lines if (params := _opening(line)) is not None]
    server_values = [value for params in openings for value in _server_values(params)]
    workspaces: dict[str, str] = {}
    for params in openings:
        number = len(workspaces) + 1
        workspaces.setdefault(params.cwd, WORKSPACE if number == 1 else f"{WORKSPACE}-{number}")
    # The longest first: a workspace lies in a home, and a key may begin as another.
    renamed = sorted({**(folders or {}), **workspaces}.items(), key=lambda pair: -len(pair[0]))
    hidden = sorted(
        {each for each in (*server_values, *secrets) if len(each) >= MIN_SECRET_CHARACTERS}, key=len, reverse=True
    )
    return [_scrubbed(line, renamed, hidden) for line in lines]


def _scrubbed(line: bytes, folders: Iterable[tuple[str, str]], secrets: Iterable[str]) -> bytes:
    for secret in secrets:
        line = line.replace(json_text(secret), SECRET.encode())
    line = _KEYS.sub(SECRET.encode(), line)
    if _opening(line) is not None:
        line = _without_values(line)
    for was, now in folders:
        if (pattern := folder_pattern(was, now)) is not None:
            line = substitute(pattern, json_text(now), line)
        # As some agents name the files that they keep of a folder.
        if len(was) > len("/a/b"):
            line = line.replace(json_text(was.replace("/", "-")), json_text(now.replace("/", "-")))
    return line


def _opening(line: bytes) -> _Params | None:
    """Decode the params by which a client opened a session."""
    try:
        frame = msgspec.json.decode(line, type=_Line).frame
        return msgspec.json.decode(frame.params, type=_Params) if frame.method in OPENING_METHODS else None
    except DECODE_ERRORS:
        return None


def _server_values(params: _Params) -> Iterable[str]:
    for server in params.mcpServers:
        try:
            decoded = msgspec.json.decode(server, type=_Server)
        except DECODE_ERRORS:
            continue
        yield from (each.value for each in (*decoded.env, *decoded.headers))


def _without_values(line: bytes) -> bytes:
    """Hide each value in `env` and `headers` of a server, however short."""
    read = msgspec.json.decode(line)
    for server in read["frame"]["params"].get("mcpServers") or ():
        for each in (*(server.get("env") or ()), *(server.get("headers") or ())):
            each["value"] = SECRET
    end = b"\n" if line.endswith(b"\n") else b""
    return msgspec.json.encode(read) + end
