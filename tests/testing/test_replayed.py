"""Every recording of a real agent plays through Dragoman itself: the same messages, tool calls and ends of runs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec

from agents_unit.replay_recordings import Line, connections, every_recording
from dragoman import AgentRuntime, AgentSpec, Session, SessionConfig, Workspace
from dragoman.errors import DragomanError
from dragoman.host.permission import PermissionRequest, Reply
from dragoman.record.fold import SessionFold
from dragoman.record.routing import fold_recording
from dragoman.session.handle import SessionHandle
from dragoman.testing import recorded, tee
from dragoman.testing.recordings import Recorder, Replayer

# Seconds until a test gives up waiting: far more than anything here takes.
TIMEOUT_S = 20.0


class Driver:
    """Does through a runtime what the recorded client did, each time when as much was heard as then."""

    def __init__(self, lines: list[Line], folder: Path) -> None:
        self._lines = lines
        self._folder = folder
        self._heard = 0
        self._more = asyncio.Event()
        self._decisions = self._recorded_decisions()
        self._prepare()
        self.sessions: dict[str, Session] = {}
        self.tasks: list[asyncio.Task[object]] = []

    def note(self, line: bytes) -> None:
        self._heard += _counts(msgspec.json.decode(line, type=Line))
        self._more.set()

    async def drive(self, runtime: AgentRuntime) -> None:
        expected = 0
        for line in self._lines:
            if line.dir == "in":
                expected += _counts(line)
                continue
            while self._heard < expected:
                self._more.clear()
                await self._more.wait()
            frame = msgspec.json.decode(line.frame)
            if frame.get("method") not in (None, "initialize"):
                await self._do(runtime, frame["method"], frame.get("params") or {}, asks="id" in frame)
        while self._heard < expected:
            self._more.clear()
            await self._more.wait()
        await asyncio.gather(*self.tasks)

    async def _do(self, runtime: AgentRuntime, method: str, params: dict[str, Any], *, asks: bool) -> None:
        session_id = params.get("sessionId")
        session = self.sessions.get(session_id or "")
        match method:
            case "session/new":
                await self._open(runtime.open_session(self._config()))
            case "session/load":
                await self._open(runtime.load_session(self._handle(params), self._config()))
            case "session/resume":
                await self._open(runtime.resume_session(self._handle(params), self._config()))
            case "session/fork" if session is not None:
                await self._open(runtime.fork_session(session))
            case "session/prompt" if session is not None and session.active is None and "prompt" in params:
                [block] = params["prompt"]
                self.tasks.append(asyncio.ensure_future(_ended(session.run(block["text"]))))
            case "session/cancel" if session is not None:
                self.tasks.append(asyncio.ensure_future(session.cancel()))
            case _ if asks:
                self.tasks.append(asyncio.ensure_future(_ended(runtime.request(method, params))))
            case _:
                runtime.notify(method, params)

    async def _open(self, opening: Any) -> None:
        try:
            session = await opening
        except DragomanError:
            return
        self.sessions[session.agent_session_id] = session

    def _config(self) -> SessionConfig:
        return SessionConfig(workspace=Workspace(self._folder), on_permission=self._decide)

    def _handle(self, params: dict[str, Any]) -> SessionHandle:
        return SessionHandle(
            session_id="s", agent_session_id=params["sessionId"], cwd=str(self._folder), command=("recorded",)
        )

    async def _decide(self, request: PermissionRequest) -> Reply:
        if request.origin != "agent":
            return True
        return self._decisions.get(request.request_id)

    @property
    def cwd(self) -> str:
        """The folder of the recording."""
        cwds = [msgspec.json.decode(line.frame).get("params", {}).get("cwd") for line in self._lines]
        return next((cwd for cwd in cwds if cwd), "")

    def spec(self) -> AgentSpec:
        """Return a spec that offers the agent what was offered in the recording."""
        [initialize] = (line for line in self._lines if line.asks("initialize"))
        offers = msgspec.json.decode(initialize.frame)["params"]["clientCapabilities"]
        return AgentSpec(
            command=["recorded"],
            read_files=offers.get("fs", {}).get("readTextFile", False),
            write_files=offers.get("fs", {}).get("writeTextFile", False) or self._wrote_unasked,
            terminals=offers.get("terminal", False),
        )

    @property
    def _wrote_unasked(self) -> bool:
        """The recorded client let opencode write files though it had not offered to."""
        frames = [(line.dir, msgspec.json.decode(line.frame)) for line in self._lines]
        written = {frame["id"] for way, frame in frames if way == "in" and frame.get("method") == "fs/write_text_file"}
        return any(way == "out" and frame.get("id") in written and frame.get("result") == {} for way, frame in frames)

    def _prepare(self) -> None:
        """Create the files that existed when the session was recorded."""
        requests_by_id: dict[Any, str] = {}
        for line in self._lines:
            match line.dir, msgspec.json.decode(line.frame):
                case "in", {"id": request_id, "method": "fs/read_text_file", "params": {"path": path}}:
                    requests_by_id[request_id] = path.replace(self.cwd, str(self._folder))
                case "in", {"method": "fs/write_text_file"}:
                    return
                case "out", {"id": request_id, "result": {"content": text}} if request_id in requests_by_id:
                    Path(requests_by_id[request_id]).write_text(text)
                case _:
                    pass

    def _recorded_decisions(self) -> dict[Any, str | None]:
        found: dict[Any, str | None] = {}
        for line in self._lines:
            frame = msgspec.json.decode(line.frame)
            match line.dir, frame:
                case "out", {"id": request_id, "result": {"outcome": {"outcome": _, **chosen}}}:
                    found[request_id] = msgspec.convert(chosen.get("optionId"), str | None)
                case _:
                    pass
        return found


def _counts(line: Line) -> bool:
    """Received, and not the answer to any request: goose 1.34.0 has one for a terminal that ends with its session."""
    frame = msgspec.json.decode(line.frame)
    return line.dir == "in" and ("method" in frame or isinstance(frame["id"], int))


async def _ended(waited: Any) -> object:
    try:
        return await waited
    except DragomanError as problem:
        return problem


async def driven(driver: Driver, launch: Recorder | Replayer) -> dict[str, SessionFold]:
    launching = tee.recorded(driver.note, launch)
    async with asyncio.timeout(TIMEOUT_S), AgentRuntime(driver.spec(), launch=launching) as runtime:
        await driver.drive(runtime)
        return {name: session.fold for name, session in driver.sessions.items()}


def summary(fold: SessionFold) -> dict[str, Any]:
    return {
        "messages": [(each.kind, each.text, each.replayed) for each in fold.messages],
        "tool calls": [(each.tool_call_id, each.title, each.status) for each in fold.tool_calls],
        "runs": [(run.status, run.reason) for run in fold.runs.values()],
    }


@every_recording
async def test_a_recording_plays_through_dragoman_to_the_same_fold(case: Path, tmp_path: Path) -> None:
    launch = recorded(case, when="never", strict=True)
    for lines in connections(case):
        driver = Driver(lines, tmp_path)
        folds = await driven(driver, launch)
        original = fold_recording(msgspec.json.encode({"dir": line.dir, "frame": line.frame}) for line in lines)
        assert {name for name, fold in original.items() if any(m.kind != "user" for m in fold.messages)} <= set(folds)
        for name, fold in folds.items():
            then = msgspec.json.encode(summary(original[name]))
            now = msgspec.json.encode(summary(fold)).replace(str(tmp_path).encode(), driver.cwd.encode())
            assert msgspec.json.decode(now) == msgspec.json.decode(then)
