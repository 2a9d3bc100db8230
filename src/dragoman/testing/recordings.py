"""`recorded`: an agent that is recorded once and played from then on, for tests that need a real one's behaviour.

    @pytest.fixture
    def launch(request):
        return recorded(Path(__file__).parent / "recordings" / f"{request.node.name}.jsonl", scrub=True)

    async def test_it_fixes_the_test(launch, tmp_path):
        async with AgentRuntime(spec, launch=launch) as runtime: …

The first time, the agent of the spec is started, and what is said is kept in the file when it has ended. From then on
the file plays, without the agent: no process, no account, no network. `DRAGOMAN_RECORD` says otherwise: `always`
records again, `never` makes a missing file an error, as is right where tests run unattended.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from dragoman.agents.replay.playback import PlaybackOptions
from dragoman.agents.replay.player import Player, serve
from dragoman.agents.replay.recording import read_recording
from dragoman.errors import InputError
from dragoman.proc.link import END_GRACE_S, AgentLink
from dragoman.session.launch import launch as launch_process
from dragoman.session.spec import AgentSpec, Launch, Limits
from dragoman.testing.memory import MemoryLink
from dragoman.testing.scrub import HOME, scrub, secrets_in
from dragoman.testing.side import AgentMain, AgentSide
from dragoman.testing.tee import RecordedLink, Tee

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
    """A `launch` for `AgentRuntime`, on a recording.

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
        """All of it, or nothing: half a recording would play half for ever."""
        lines = [line for connection in self._connections for line in connection]
        if self._scrub:
            home = os.path.expanduser("~")
            lines = scrub(lines, places={home: HOME, os.path.realpath(home): HOME}, secrets=self._secrets)
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
    """A player as an agent in memory."""

    async def main(side: AgentSide) -> int:
        await serve(side, player)
        return 0

    return main
