"""The sub-agents of a Codex thread, as far as its own file reports them. Each has a thread and a file of its own."""

from __future__ import annotations

from typing import Final

import msgspec

from dragoman.translate import frames
from dragoman.translate.codex import records
from dragoman.translate.codex.records import RecordRef
from dragoman.translate.translator import Frame
from dragoman.wire.vocabulary import IdleStateUpdate, RunningStateUpdate, StateUpdate, SubagentUpdate

_START_KINDS: Final = frozenset({"started", "interacted", "spawned"})
# Tools whose outputs have the threads of sub-agents in them.
_AGENT_TOOLS: Final = frozenset({"spawn_agent", "wait", "wait_agent"})
# What else a sub-agent is when it is done, besides completed or failed, which are told with its last words.
_DONE_STATES: Final = frozenset({"interrupted", "shutdown", "not_found"})


class _AgentOutput(msgspec.Struct, frozen=True, gc=False):
    """The output of a call: the agent that was spawned, or the states of those that were waited for."""

    agent_id: str = ""
    nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class _Status(msgspec.Struct, frozen=True, gc=False):
    thread_id: str = ""
    agent_nickname: str | None = None
    status: msgspec.Raw = records.ABSENT


class Agents:
    """Reports each sub-agent to `out` when it first appears and when its state changes."""

    def __init__(self, session_id: str, out: list[Frame]) -> None:
        self._session_id = session_id
        self._out = out
        self._states: dict[str, str] = {}
        self._agent_calls: set[str] = set()  # calls whose outputs tell of sub-agents

    def add_call(self, call_id: str, name: str) -> None:
        if name in _AGENT_TOOLS:
            self._agent_calls.add(call_id)

    def add_output(self, ref: RecordRef, call_id: str, text: str) -> None:
        if call_id not in self._agent_calls:
            return
        self._agent_calls.discard(call_id)
        output = records.read(text.encode("utf-8", "replace"), _AgentOutput, _AgentOutput())
        if output.agent_id:
            self._emit(ref, output.agent_id, output.nickname, None, RunningStateUpdate(), call_id)
        self.states(ref, output.status)

    def states(self, ref: RecordRef, raw: msgspec.Raw) -> None:
        """The states of sub-agents, by their threads: those that are done have their last words with it."""
        for thread_id, state in records.read(raw, dict[str, msgspec.Raw], {}).items():
            if _is_done(state):
                self._emit(ref, thread_id, None, None, IdleStateUpdate(), None)

    def event(self, ref: RecordRef, event: records.Payload) -> bool:
        """Handle an event of a sub-agent; returns False for any other."""
        match event.type:
            case "collab_agent_spawn_end":
                if event.new_thread_id:
                    name, task = event.new_agent_nickname, event.prompt
                    self._emit(ref, event.new_thread_id, name, task, RunningStateUpdate(), event.call_id)
            case "collab_agent_interaction_end" | "collab_resume_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._emit(ref, event.receiver_thread_id, name, None, RunningStateUpdate(), event.call_id)
            case "collab_close_end":
                if event.receiver_thread_id:
                    name = event.receiver_agent_nickname
                    self._emit(ref, event.receiver_thread_id, name, None, IdleStateUpdate(), event.call_id)
            case "collab_waiting_end":
                for agent in records.read(event.agent_statuses, list[_Status], []):
                    if _is_done(agent.status):
                        self._emit(ref, agent.thread_id, agent.agent_nickname, None, IdleStateUpdate(), None)
            case "sub_agent_activity":
                self.activity(ref, event.agent_thread_id, event.agent_path or "", event.kind)
            case _:
                return False
        return True

    def activity(self, ref: RecordRef, thread_id: str, path: str, kind: str) -> None:
        state: StateUpdate = RunningStateUpdate() if kind in _START_KINDS else IdleStateUpdate()
        name = path.rstrip("/").rpartition("/")[2] or None
        if thread_id:
            self._emit(ref, thread_id, name, None, state, None)

    def _emit(
        self,
        ref: RecordRef,
        thread_id: str,
        name: str | None,
        task: str | None,
        state: StateUpdate,
        call_id: str | None,
    ) -> None:
        kind = str(type(state).__struct_config__.tag)
        if self._states.get(thread_id) == kind:
            return
        self._states[thread_id] = kind
        meta = ref.meta()
        if call_id is not None:
            meta["codex"] = {"parentToolUseId": call_id}
        update = SubagentUpdate(
            session_id=thread_id,
            title=name if name is not None else msgspec.UNSET,
            description=task if task is not None else msgspec.UNSET,
            state=state,
            meta=meta,
        )
        self._out.append(frames.update(self._session_id, ref.at, update))


def _is_done(state: msgspec.Raw) -> bool:
    value = records.plain(state)
    return isinstance(value, dict) or (isinstance(value, str) and value in _DONE_STATES)
