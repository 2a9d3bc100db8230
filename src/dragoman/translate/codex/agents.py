"""The sub-agents of a Codex thread, as it tells of them. Each has a thread, and a file, of its own."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.translate import frames
from dragoman.translate.codex import records
from dragoman.translate.codex.where import Where
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import IdleStateUpdate, RunningStateUpdate, StateUpdate, SubagentUpdate

_STARTS: Final = frozenset({"started", "interacted", "spawned"})
# Tools whose outputs have the threads of sub-agents in them.
_TELLING: Final = frozenset({"spawn_agent", "wait", "wait_agent"})
# What else a sub-agent is when it is done, besides completed or failed, which are told with its last words.
_DONE: Final = frozenset({"interrupted", "shutdown", "not_found"})


class _Gave(msgspec.Struct, frozen=True, gc=False):
    """What a call gives: the agent that was spawned, or the states of those that were waited for."""

    agent_id: str = ""
    nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class _Status(msgspec.Struct, frozen=True, gc=False):
    thread_id: str = ""
    agent_nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class Agents:
    """What is to be told goes to `out`: a sub-agent when it is first heard of, and when its state changes."""

    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._states: dict[str, str] = {}
        self._asked: set[str] = set()  # calls whose outputs tell of sub-agents

    def called(self, call_id: str, name: str) -> None:
        if name in _TELLING:
            self._asked.add(call_id)

    def answered(self, where: Where, call_id: str, text: str) -> None:
        if call_id not in self._asked:
            return
        self._asked.discard(call_id)
        gave = records.read(text.encode("utf-8", "replace"), _Gave, _Gave())
        if gave.agent_id:
            self._tell(where, gave.agent_id, gave.nickname, None, RunningStateUpdate(), call_id)
        self.states(where, gave.status)

    def states(self, where: Where, told: msgspec.Raw) -> None:
        """The states of sub-agents, by their threads: those that are done have their last words with it."""
        for thread_id, state in records.read(told, dict[str, msgspec.Raw], {}).items():
            if _is_done(state):
                self._tell(where, thread_id, None, None, IdleStateUpdate(), None)

    def event(self, where: Where, event: records.Payload) -> bool:
        """Whether it is one of a sub-agent."""
        match event.type:
            case "collab_agent_spawn_end":
                if event.new_thread_id:
                    name, task = event.new_agent_nickname, event.prompt
                    self._tell(where, event.new_thread_id, name, task, RunningStateUpdate(), event.call_id)
            case "collab_agent_interaction_end" | "collab_resume_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._tell(where, event.receiver_thread_id, name, None, RunningStateUpdate(), event.call_id)
            case "collab_close_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._tell(where, event.receiver_thread_id, name, None, IdleStateUpdate(), event.call_id)
            case "collab_waiting_end":
                for agent in records.read(event.agent_statuses, list[_Status], []):
                    if _is_done(agent.status):
                        self._tell(where, agent.thread_id, agent.agent_nickname, None, IdleStateUpdate(), None)
            case "sub_agent_activity":
                self.activity(where, event.agent_thread_id, event.agent_path or "", event.kind)
            case _:
                return False
        return True

    def activity(self, where: Where, thread_id: str, path: str, kind: str) -> None:
        state: StateUpdate = RunningStateUpdate() if kind in _STARTS else IdleStateUpdate()
        name = path.rstrip("/").rpartition("/")[2] or None
        if thread_id:
            self._tell(where, thread_id, name, None, state, None)

    def _tell(
        self, where: Where, thread_id: str, name: str | None, task: str | None, state: StateUpdate, call_id: str | None
    ) -> None:
        kind = str(type(state).__struct_config__.tag)
        if self._states.get(thread_id) == kind:
            return
        self._states[thread_id] = kind
        meta = where.meta()
        if call_id is not None:
            meta["codex"] = {"parentToolUseId": call_id}
        update = SubagentUpdate(
            session_id=thread_id,
            title=name if name is not None else msgspec.UNSET,
            description=task if task is not None else msgspec.UNSET,
            state=state,
            meta=meta,
        )
        self._out.append(frames.update(self._session_id, where.at, update))


def _is_done(state: msgspec.Raw) -> bool:
    value = records.plain(state)
    return isinstance(value, dict) or (isinstance(value, str) and value in _DONE)
