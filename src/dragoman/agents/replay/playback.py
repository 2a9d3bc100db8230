"""Playback of one session: which frames are sent next, and what the playback waits for.

Pure: requests and answers of the client are put in, `step` returns the lines that are due, `wake` is the time when more
will be. Frames are played in the order of the recording. What the client sent then is expected now:

- its answers to the agent's requests, without a time limit;
- a cancel, or another prompt within the run, for `INTERRUPT_TIMEOUT_S` seconds in strict mode, otherwise not at all;
- other requests and notifications are never waited for: a client may do without them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from dragoman.agents.replay.frames import Difference, Substitutions, answers_differ, params_differ, prompts_differ
from dragoman.agents.replay.recording import CANCEL, PROMPT, RecordedFrame, Segment, Track
from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.wire.messages import RequestId


class ClientRequest(msgspec.Struct, frozen=True):
    """A request of the client, as received."""

    id: RequestId
    method: str
    frame: bytes


class PlaybackOptions(msgspec.Struct, frozen=True):
    """`strict`: compare what the client sends with the recording. `real_time`: keep the pauses of the recording."""

    strict: bool = True
    real_time: bool = False


class ActiveSegment:
    """A segment that is being played."""

    def __init__(self, segment: Segment, now: float) -> None:
        self.steps = segment.steps
        self.at = 0
        self.due = now
        self.open_requests: dict[RequestId, ClientRequest] = {}  # unanswered, by their recorded ids
        self.skipped_requests: set[RequestId] = set()  # recorded, but not made now
        self.withdrawn: set[RequestId] = set()
        self.cancelled = False
        self.is_late = False  # the client has gone on: no pauses, no waiting for answers
        self.wait_until: float | None = None

    @property
    def step(self) -> RecordedFrame | None:
        return self.steps[self.at] if self.at < len(self.steps) else None

    def cancel_ahead(self) -> bool:
        return any(step.method == CANCEL for step in self.steps[self.at :])


# Strict playback waits this long for the client to interrupt as it did in the recording. A program does so at once; a
# test that forgot it gets an error that says so.
INTERRUPT_TIMEOUT_S: Final = 10.0

# Requests that are answered with an empty result when they were not recorded.
HARMLESS_METHODS: Final = ("session/close", "session/delete", "authenticate", "logout")


class SessionPlayback:
    """`new_id` returns an id for a request of the agent: the recorded one if it is free."""

    def __init__(
        self,
        track: Track,
        substitutions: Substitutions,
        options: PlaybackOptions,
        new_id: Callable[[RequestId], RequestId],
    ) -> None:
        self.track = track
        self.substitutions = substitutions
        self.wake: float | None = None  # when `step` has more lines, even if the client sends nothing
        self._options = options
        self._new_id = new_id
        self._played: set[int] = set()
        self._active: ActiveSegment | None = None
        self._queue: list[ClientRequest] = []
        self._unclaimed_answers: dict[
            str, list[RecordedFrame]
        ] = {}  # by method: answers to requests that the client has not made yet
        self._agent_requests: dict[
            RequestId, RequestId
        ] = {}  # unanswered requests of the agent: current id to recorded id
        self._answers: dict[RequestId, bytes] = {}  # by their recorded ids
        self._outgoing: list[bytes] = []

    # -- input from the client

    def add_request(self, request: ClientRequest) -> None:
        self._queue.append(request)

    def answer(self, request_id: RequestId, frame: bytes) -> bool:
        """Take the client's answer; return False if this session made no such request."""
        if request_id not in self._agent_requests:
            return False
        self._answers[self._agent_requests.pop(request_id)] = frame
        return True

    def cancel(self) -> None:
        """End the active run: as recorded if it was cancelled then, otherwise at this point."""
        cancelled = [request for request in self._queue if request.method == PROMPT]
        self._queue = [request for request in self._queue if request.method != PROMPT]
        for request in cancelled:
            self._send_result(request.id, {"stopReason": "cancelled"})
        active = self._active
        if active is None or not any(request.method == PROMPT for request in active.open_requests.values()):
            return
        active.cancelled = True
        if not active.cancel_ahead():
            for request in active.open_requests.values():
                if request.method == PROMPT:
                    self._send_result(request.id, {"stopReason": "cancelled"})
                else:
                    self._send_error(request.id, REQUEST_CANCELLED, f"{request.method}: the run was cancelled")
            self._active = None

    def withdraw(self, request_id: RequestId) -> bool:
        """Cancel a request of the client; return whether it belongs to this session."""
        active = self._active
        for recorded, request in list(active.open_requests.items()) if active is not None else ():
            if request.id == request_id:
                assert active is not None
                del active.open_requests[recorded]
                active.withdrawn.add(recorded)
                if not active.open_requests:
                    self._active = None
                self._send_error(request_id, REQUEST_CANCELLED, "cancelled")
                return True
        for request in self._queue:
            if request.id == request_id:
                self._queue.remove(request)
                self._send_error(request_id, REQUEST_CANCELLED, "cancelled")
                return True
        return False

    @property
    def busy(self) -> bool:
        return self._active is not None and bool(self._active.open_requests)

    # -- output to the client

    def step(self, now: float) -> list[bytes]:
        """Return the lines that are due, without newlines."""
        self.wake = None
        while self._play_next(now):
            pass
        outgoing, self._outgoing = self._outgoing, []
        return outgoing

    def begin(self, number: int, request: ClientRequest, now: float) -> None:
        """Start to play a segment for a request. For load and resume, the segments before it count as played."""
        segment = self.track.segments[number]
        self._played.add(number)
        if segment.first_request.method == "session/load" or segment.first_request.method == "session/resume":
            self._played.update(range(number))
        self._active = active = ActiveSegment(segment, now)
        assert segment.first_request.id is not None
        active.open_requests[segment.first_request.id] = request
        self._advance(active, now)

    def skip(self, numbers: Iterable[int]) -> None:
        """Mark these segments as played."""
        self._played.update(numbers)

    def next_unplayed(self, method: str) -> int | None:
        """Return the number of the next segment that begins with this method."""
        return next((number for number in self.track.starting_with(method) if number not in self._played), None)

    def _play_next(self, now: float) -> bool:
        """Do the next thing; return False if there is nothing to do now."""
        active = self._active
        if active is not None and not active.open_requests and self._queue:
            active.is_late = True  # all is answered, and the client goes on: send the rest first
        if active is not None and active.step is not None:
            return self._play_step(active, active.step, now)
        if active is not None:
            self._active = None
            for request in active.open_requests.values():
                self._send_error(
                    request.id, INVALID_REQUEST, f"{request.method}: the recording ends here, before it was answered"
                )
            return True
        if self._queue:
            self._start(self._queue.pop(0), now)
            return True
        return False

    def _play_step(self, active: ActiveSegment, step: RecordedFrame, now: float) -> bool:
        if active.open_requests and self._queue:
            self._serve_meanwhile(active)
        match step.sender, step.kind:
            case "client", "request":
                return self._expect_request(active, step, now)
            case "client", "notification" if step.method == CANCEL:
                there = active.cancelled or active.is_late or not self._options.strict
                return self._advance(active, now) if there else self._wait_for_client(active, step, now)
            case "client", "answer":
                return self._expect_answer(active, step, now)
            case "client", _:
                return self._advance(active, now)
            case _:
                if self._options.real_time and not active.is_late and now < active.due:
                    self.wake = active.due
                    return False
                self._send_step(active, step)
                return self._advance(active, now)

    def _advance(self, active: ActiveSegment, now: float) -> bool:
        before = active.steps[active.at]
        active.at += 1
        active.wait_until = None
        if active.step is not None and self._options.real_time:
            active.due = now + max(0.0, active.step.at - before.at)
        return True

    def _wait_for_client(self, active: ActiveSegment, step: RecordedFrame, now: float) -> bool:
        """Wait for the client to interrupt as it did in the recording."""
        if active.wait_until is None:
            active.wait_until = now + INTERRUPT_TIMEOUT_S
        if now < active.wait_until:
            self.wake = active.wait_until
            return False
        self._fail(
            f"the recording continues with a {step.method} of the client, and none came within "
            f"{INTERRUPT_TIMEOUT_S:g} s"
        )
        return True

    def _expect_request(self, active: ActiveSegment, step: RecordedFrame, now: float) -> bool:
        """Take the request that the recording has within the run."""
        assert step.id is not None
        request = next((request for request in self._queue if request.method == step.method), None)
        if request is None:
            if step.method == PROMPT and self._options.strict and not active.is_late:
                return self._wait_for_client(active, step, now)
            active.skipped_requests.add(step.id)
            return self._advance(active, now)
        self._queue.remove(request)
        if (difference := self._difference(step, request)) is not None:
            self._refuse(request, difference)
            return True
        active.open_requests[step.id] = request
        return self._advance(active, now)

    def _expect_answer(self, active: ActiveSegment, step: RecordedFrame, now: float) -> bool:
        assert step.id is not None
        answer_frame = self._answers.pop(step.id, None)
        if answer_frame is None:
            if step.id in self._agent_requests.values() and not active.is_late:
                return False
            return self._advance(active, now)
        if step.method == "terminal/create":
            self.substitutions.add_terminal(step.frame, answer_frame)
        if self._options.strict and not active.cancelled:
            difference = answers_differ(step.method, step.frame, answer_frame)
            if difference is not None:
                self._fail(
                    f"the answer to {step.method} is not the recorded one, and what comes next depends on it:\n"
                    f"{difference.as_diff}\nAnswer as recorded, or play by order",
                )
                return True
        return self._advance(active, now)

    def _send_step(self, active: ActiveSegment, step: RecordedFrame) -> None:
        match step.kind:
            case "request":
                assert step.id is not None
                now_id = self._new_id(step.id)
                self._agent_requests[now_id] = step.id
                self._outgoing.append(self.substitutions.to_client(step.frame, None if now_id == step.id else now_id))
            case "answer" if step.id in active.open_requests:
                request = active.open_requests.pop(step.id)
                self._outgoing.append(
                    self.substitutions.to_client(step.frame, None if request.id == step.id else request.id)
                )
            case "answer" if step.id in active.skipped_requests:
                self._unclaimed_answers.setdefault(step.method, []).append(step)
            case "answer" if step.id in active.withdrawn:
                pass
            case _:
                frame = self.substitutions.to_client(step.frame)
                self._outgoing.append(self._with_current_id(frame) if step.method == "$/cancel_request" else frame)

    def _with_current_id(self, frame: bytes) -> bytes:
        """Return the agent's cancellation of its own request with the id that the request has now."""
        decoded = msgspec.json.decode(frame, type=_Withdrawal)
        for now_id, recorded in self._agent_requests.items():
            if recorded == decoded.params.requestId != now_id:
                params = {"requestId": now_id}
                return msgspec.json.encode({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
        return frame

    # -- which segment

    def _start(self, request: ClientRequest, now: float) -> None:
        """Start the segment that a request asks for, or answer at once."""
        if late := self._unclaimed_answers.get(request.method):
            self._outgoing.append(self.substitutions.to_client(late.pop(0).frame, request.id))
        elif request.method == PROMPT:
            self._start_prompt(request, now)
        elif (number := self._find_recorded(request)) is not None:
            self.begin(number, request, now)
        else:
            self._answer_unrecorded(request)

    def _start_prompt(self, request: ClientRequest, now: float) -> None:
        number = self.next_unplayed(PROMPT)
        if number is None:
            count = len(self.track.starting_with(PROMPT))
            self._send_error(
                request.id,
                INVALID_REQUEST,
                f"the recording of this session has {_prompts(count)}, and all were played; this is one more. "
                "Record the session again, or open the session again",
            )
            return
        difference = self._difference(self.track.segments[number].first_request, request)
        if difference is None:
            self.begin(number, request, now)
        else:
            self._refuse(request, difference)

    def _find_recorded(self, request: ClientRequest) -> int | None:
        """Return the segment with the same request, unplayed ones first; in strict mode with the same params."""
        numbers = self.track.starting_with(request.method)
        numbers.sort(key=lambda number: number in self._played)
        same = [n for n in numbers if params_differ(self.track.segments[n].first_request.frame, request.frame) is None]
        return next(iter(same or (() if self._options.strict and self.track.session_ids else numbers)), None)

    def _answer_unrecorded(self, request: ClientRequest) -> None:
        numbers = self.track.starting_with(request.method)
        if numbers:
            difference = params_differ(self.track.segments[numbers[0]].first_request.frame, request.frame)
            assert difference is not None
            self._refuse(request, difference)
        elif request.method in HARMLESS_METHODS:
            self._send_result(request.id, {})
        else:
            self._send_error(request.id, METHOD_NOT_FOUND, f"the recording has no {request.method}")

    def _serve_meanwhile(self, active: ActiveSegment) -> None:
        """Answer requests that were not recorded within this run as they were answered elsewhere. Prompts wait."""
        ahead = {
            step.method for step in active.steps[active.at :] if step.sender == "client" and step.kind == "request"
        }
        for request in [request for request in self._queue if request.method != PROMPT and request.method not in ahead]:
            self._queue.remove(request)
            number = self._find_recorded(request)
            segment = None if number is None else self.track.segments[number]
            matches = (
                [step for step in segment.steps if step.kind == "answer" and step.sender == "agent"] if segment else []
            )
            if late := self._unclaimed_answers.get(request.method):
                self._outgoing.append(self.substitutions.to_client(late.pop(0).frame, request.id))
            elif matches and number is not None:
                self._played.add(number)
                self._outgoing.append(self.substitutions.to_client(matches[0].frame, request.id))
            else:
                self._answer_unrecorded(request)

    def _difference(self, step: RecordedFrame, request: ClientRequest) -> Difference | None:
        if not self._options.strict:
            return None
        answer_frame = self.substitutions.to_recording(request.frame)
        return prompts_differ(step.frame, answer_frame) if step.method == PROMPT else None

    # -- requests that differ from the recording

    def _refuse(self, request: ClientRequest, difference: Difference) -> None:
        """Refuse a request that differs; the playback stays where it is."""
        which = ""
        if request.method == PROMPT:
            prompts = self.track.starting_with(PROMPT)
            which = f" ({1 + sum(number in self._played for number in prompts)} of {len(prompts)})"
        self._send_error(
            request.id,
            INVALID_PARAMS,
            f"this {request.method} is not the recorded one{which}:\n{difference.as_diff}\n"
            "Nothing was played. Ask as recorded, or play by order",
        )

    def _fail(self, reason: str) -> None:
        """End the run with an error: it cannot continue as recorded."""
        active, self._active = self._active, None
        assert active is not None
        for request in active.open_requests.values():
            self._send_error(request.id, INVALID_REQUEST, reason)

    def _send_result(self, request_id: RequestId, result: object) -> None:
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def _send_error(self, request_id: RequestId, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._outgoing.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}))


class _Requested(msgspec.Struct, frozen=True):
    requestId: RequestId | None = None  # noqa: N815 (the wire's name)


class _Withdrawal(msgspec.Struct, frozen=True):
    params: _Requested = _Requested()


def _prompts(count: int) -> str:
    return "1 prompt" if count == 1 else f"{count} prompts" if count else "no prompt"
