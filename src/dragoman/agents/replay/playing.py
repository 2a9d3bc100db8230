"""One session while it is played: what is said next, and what it waits for.

Pure: requests and answers of the client's are put in, `step` gives the lines that are due, `wake` tells when more will
be. Steps are played in the order of the recording. What the client said then is waited for now:

- its answers to the agent's requests, for as long as it takes;
- a cancel, or another prompt within the turn, for `PATIENCE` seconds where the play is strict; by order not at all;
- other requests and notifications are never waited for: a client may do without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from dragoman.agents.replay.act import Act, Asked, Manner
from dragoman.agents.replay.compare import Difference, answers_differ, params_differ, prompts_differ
from dragoman.agents.replay.names import Names
from dragoman.agents.replay.script import CANCEL, PROMPT, Step, Track
from dragoman.errors import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, REQUEST_CANCELLED
from dragoman.wire.messages import RequestId

# Seconds that a strict play waits for a client to interrupt as it did when it was recorded: a program does so at once,
# and a test that has forgotten to shall learn why its turn does not go on.
PATIENCE: Final = 10.0

# What a client may ask of any agent that says so, and what does no harm where it was not recorded.
HARMLESS: Final = ("session/close", "session/delete", "authenticate", "logout")


class Playing:
    """`new_id` gives an id for a request of the agent's: the recorded one where it is free."""

    def __init__(self, track: Track, names: Names, manner: Manner, new_id: Callable[[RequestId], RequestId]) -> None:
        self.track = track
        self.names = names
        self.wake: float | None = None  # when `step` will have more to say, whatever the client does
        self._manner = manner
        self._new_id = new_id
        self._played: set[int] = set()
        self._act: Act | None = None
        self._waiting: list[Asked] = []
        self._late: dict[str, list[Step]] = {}  # answers to requests that were not made when they were recorded
        self._own: dict[RequestId, RequestId] = {}  # our requests without an answer: their ids now, and as recorded
        self._answers: dict[RequestId, bytes] = {}  # by their recorded ids
        self._said: list[bytes] = []

    # -- what the client says

    def ask(self, asked: Asked) -> None:
        self._waiting.append(asked)

    def answer(self, request_id: RequestId, frame: bytes) -> bool:
        """Whether it was we who asked."""
        if request_id not in self._own:
            return False
        self._answers[self._own.pop(request_id)] = frame
        return True

    def cancel(self) -> None:
        """The turn under way ends: as recorded where it was cancelled then, else here."""
        held = [asked for asked in self._waiting if asked.method == PROMPT]
        self._waiting = [asked for asked in self._waiting if asked.method != PROMPT]
        for asked in held:
            self._say_result(asked.id, {"stopReason": "cancelled"})
        act = self._act
        if act is None or not any(asked.method == PROMPT for asked in act.heard.values()):
            return
        act.cancelled = True
        if not act.cancel_ahead():
            for asked in act.heard.values():
                if asked.method == PROMPT:
                    self._say_result(asked.id, {"stopReason": "cancelled"})
                else:
                    self._say_error(asked.id, REQUEST_CANCELLED, f"{asked.method}: the turn was cancelled")
            self._act = None

    def withdraw(self, request_id: RequestId) -> bool:
        """The client takes a request back. Whether it was made here."""
        act = self._act
        for recorded, asked in list(act.heard.items()) if act is not None else ():
            if asked.id == request_id:
                assert act is not None
                del act.heard[recorded]
                act.withdrawn.add(recorded)
                if not act.heard:
                    self._act = None
                self._say_error(request_id, REQUEST_CANCELLED, "cancelled")
                return True
        for asked in self._waiting:
            if asked.id == request_id:
                self._waiting.remove(asked)
                self._say_error(request_id, REQUEST_CANCELLED, "cancelled")
                return True
        return False

    @property
    def busy(self) -> bool:
        return self._act is not None and bool(self._act.heard)

    # -- what is said

    def step(self, now: float) -> list[bytes]:
        """The lines that are due, without their newlines."""
        self.wake = None
        while self._goes_on(now):
            pass
        said, self._said = self._said, []
        return said

    def begin(self, number: int, asked: Asked, now: float) -> None:
        """Plays this stretch for this request. For `load`, what came before it counts as played."""
        stretch = self.track.stretches[number]
        self._played.add(number)
        if stretch.lead.method == "session/load" or stretch.lead.method == "session/resume":
            self._played.update(range(number))
        self._act = act = Act(stretch, now)
        assert stretch.lead.id is not None
        act.heard[stretch.lead.id] = asked
        self._advance(act, now)

    def skip_all(self) -> None:
        """All was told: there is nothing left to play."""
        self._played.update(range(len(self.track.stretches)))

    def unplayed(self, method: str) -> int | None:
        """The next stretch that begins with this method."""
        return next((number for number in self.track.led_by(method) if number not in self._played), None)

    def _goes_on(self, now: float) -> bool:
        """Does the next thing; False when there is none to be done now."""
        act = self._act
        if act is not None and not act.heard and self._waiting:
            act.hurried = True  # all is answered, and the client goes on: what is left is said before
        if act is not None and act.step is not None:
            return self._plays(act, act.step, now)
        if act is not None:
            self._act = None
            for asked in act.heard.values():
                self._say_error(
                    asked.id, INVALID_REQUEST, f"{asked.method}: the recording ends here, before it was answered"
                )
            return True
        if self._waiting:
            self._take(self._waiting.pop(0), now)
            return True
        return False

    def _plays(self, act: Act, step: Step, now: float) -> bool:
        if act.heard and self._waiting:
            self._serve_meanwhile(act)
        match step.by, step.kind:
            case "client", "request":
                return self._hears(act, step, now)
            case "client", "notification" if step.method == CANCEL:
                there = act.cancelled or act.hurried or not self._manner.strict
                return self._advance(act, now) if there else self._waits(act, step, now)
            case "client", "answer":
                return self._is_answered(act, step, now)
            case "client", _:
                return self._advance(act, now)
            case _:
                if self._manner.real and not act.hurried and now < act.due:
                    self.wake = act.due
                    return False
                self._speak(act, step)
                return self._advance(act, now)

    def _advance(self, act: Act, now: float) -> bool:
        before = act.steps[act.at]
        act.at += 1
        act.patient_until = None
        if act.step is not None and self._manner.real:
            act.due = now + max(0.0, act.step.at - before.at)
        return True

    def _waits(self, act: Act, step: Step, now: float) -> bool:
        """For the client to interrupt as it did then."""
        if act.patient_until is None:
            act.patient_until = now + PATIENCE
        if now < act.patient_until:
            self.wake = act.patient_until
            return False
        self._fail(
            f"the recording goes on with a {step.method} of the client's here, and none came within {PATIENCE:g} s"
        )
        return True

    def _hears(self, act: Act, step: Step, now: float) -> bool:
        """A request within the turn."""
        assert step.id is not None
        asked = next((asked for asked in self._waiting if asked.method == step.method), None)
        if asked is None:
            if step.method == PROMPT and self._manner.strict and not act.hurried:
                return self._waits(act, step, now)
            act.unheard.add(step.id)
            return self._advance(act, now)
        self._waiting.remove(asked)
        if (difference := self._difference(step, asked)) is not None:
            self._refuse(asked, difference)
            return True
        act.heard[step.id] = asked
        return self._advance(act, now)

    def _is_answered(self, act: Act, step: Step, now: float) -> bool:
        assert step.id is not None
        given = self._answers.pop(step.id, None)
        if given is None:
            if step.id in self._own.values() and not act.hurried:
                return False
            return self._advance(act, now)
        if step.method == "terminal/create":
            self.names.terminal(step.frame, given)
        if self._manner.strict and not act.cancelled:
            difference = answers_differ(step.method, step.frame, given)
            if difference is not None:
                self._fail(
                    f"the answer to {step.method} is not the recorded one, and what comes next depends on it:\n"
                    f"{difference.shown}\nAnswer as recorded, or play by order",
                )
                return True
        return self._advance(act, now)

    def _speak(self, act: Act, step: Step) -> None:
        match step.kind:
            case "request":
                assert step.id is not None
                now_id = self._new_id(step.id)
                self._own[now_id] = step.id
                self._said.append(self.names.now(step.frame, None if now_id == step.id else now_id))
            case "answer" if step.id in act.heard:
                asked = act.heard.pop(step.id)
                self._said.append(self.names.now(step.frame, None if asked.id == step.id else asked.id))
            case "answer" if step.id in act.unheard:
                self._late.setdefault(step.method, []).append(step)
            case "answer" if step.id in act.withdrawn:
                pass
            case _:
                frame = self.names.now(step.frame)
                self._said.append(self._taken_back(frame) if step.method == "$/cancel_request" else frame)

    def _taken_back(self, frame: bytes) -> bytes:
        """The agent takes back a request of its own, which may have another id now."""
        read = msgspec.json.decode(frame, type=_Withdrawal)
        for now_id, recorded in self._own.items():
            if recorded == read.params.requestId != now_id:
                params = {"requestId": now_id}
                return msgspec.json.encode({"jsonrpc": "2.0", "method": "$/cancel_request", "params": params})
        return frame

    # -- which stretch

    def _take(self, asked: Asked, now: float) -> None:
        """Begins what the client asks for, or answers at once."""
        if late := self._late.get(asked.method):
            self._said.append(self.names.now(late.pop(0).frame, asked.id))
        elif asked.method == PROMPT:
            self._prompted(asked, now)
        elif (number := self._recorded(asked)) is not None:
            self.begin(number, asked, now)
        else:
            self._not_recorded(asked)

    def _prompted(self, asked: Asked, now: float) -> None:
        number = self.unplayed(PROMPT)
        if number is None:
            count = len(self.track.led_by(PROMPT))
            self._say_error(
                asked.id,
                INVALID_REQUEST,
                f"the recording of this session has {_prompts(count)}, and all were played; this is one more. "
                "Record it anew, or open the session again",
            )
            return
        difference = self._difference(self.track.stretches[number].lead, asked)
        if difference is None:
            self.begin(number, asked, now)
        else:
            self._refuse(asked, difference)

    def _recorded(self, asked: Asked) -> int | None:
        """Where the same was asked: next, or before; with the same params where that is required."""
        numbers = self.track.led_by(asked.method)
        numbers.sort(key=lambda number: number in self._played)
        same = [n for n in numbers if params_differ(self.track.stretches[n].lead.frame, asked.frame) is None]
        return next(iter(same or (() if self._manner.strict and self.track.session_ids else numbers)), None)

    def _not_recorded(self, asked: Asked) -> None:
        numbers = self.track.led_by(asked.method)
        if numbers:
            difference = params_differ(self.track.stretches[numbers[0]].lead.frame, asked.frame)
            assert difference is not None
            self._refuse(asked, difference)
        elif asked.method in HARMLESS:
            self._say_result(asked.id, {})
        else:
            self._say_error(asked.id, METHOD_NOT_FOUND, f"the recording has no {asked.method}")

    def _serve_meanwhile(self, act: Act) -> None:
        """What is asked during a turn, and was not then, is answered as it was at another time. Prompts wait."""
        ahead = {step.method for step in act.steps[act.at :] if step.by == "client" and step.kind == "request"}
        for asked in [asked for asked in self._waiting if asked.method != PROMPT and asked.method not in ahead]:
            self._waiting.remove(asked)
            number = self._recorded(asked)
            stretch = None if number is None else self.track.stretches[number]
            found = [step for step in stretch.steps if step.kind == "answer" and step.by == "agent"] if stretch else []
            if late := self._late.get(asked.method):
                self._said.append(self.names.now(late.pop(0).frame, asked.id))
            elif found and number is not None:
                self._played.add(number)
                self._said.append(self.names.now(found[0].frame, asked.id))
            else:
                self._not_recorded(asked)

    def _difference(self, step: Step, asked: Asked) -> Difference | None:
        if not self._manner.strict:
            return None
        given = self.names.then(asked.frame)
        return prompts_differ(step.frame, given) if step.method == PROMPT else None

    # -- what was not recorded

    def _refuse(self, asked: Asked, difference: Difference) -> None:
        """The play stays where it is."""
        which = ""
        if asked.method == PROMPT:
            prompts = self.track.led_by(PROMPT)
            which = f" ({1 + sum(number in self._played for number in prompts)} of {len(prompts)})"
        self._say_error(
            asked.id,
            INVALID_PARAMS,
            f"this {asked.method} is not the recorded one{which}:\n{difference.shown}\n"
            "Nothing was played. Ask as recorded, or play by order",
        )

    def _fail(self, reason: str) -> None:
        """The turn cannot go on as recorded."""
        act, self._act = self._act, None
        assert act is not None
        for asked in act.heard.values():
            self._say_error(asked.id, INVALID_REQUEST, reason)

    def _say_result(self, request_id: RequestId, result: object) -> None:
        self._said.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "result": result}))

    def _say_error(self, request_id: RequestId, code: int, message: str) -> None:
        error = {"code": code, "message": message}
        self._said.append(msgspec.json.encode({"jsonrpc": "2.0", "id": request_id, "error": error}))


class _Requested(msgspec.Struct, frozen=True):
    requestId: RequestId | None = None  # noqa: N815 (the wire's name)


class _Withdrawal(msgspec.Struct, frozen=True):
    params: _Requested = _Requested()


def _prompts(count: int) -> str:
    return "1 prompt" if count == 1 else f"{count} prompts" if count else "no prompt"
