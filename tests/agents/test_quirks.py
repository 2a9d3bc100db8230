"""Each quirk in a preset is pinned by a recording of the agent that has it, made with `--write-recordings`."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from dragoman.agents.preset import built_in, load_preset
from dragoman.config import load
from dragoman.testing.model.conversation import AUXILIARY_REPLY

from .catalog import AGENTS
from .conftest import TIMEOUT_S, staged
from .quirks import NOT_ON_THE_WIRE, PINS
from .recording import Recording, scrubbed

FOLDER = Path(__file__).parent / "recordings"
LARGEST = 50_000
"""Bytes of a recording: they are kept in the repository."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "live" in metafunc.fixturenames:
        if metafunc.config.getoption("--write-recordings", default=False):
            metafunc.parametrize("live", list(PINS), ids=["-".join(pin) for pin in PINS])
        else:
            off = pytest.mark.skip(reason="quirks are played and recorded with --write-recordings only")
            metafunc.parametrize("live", [pytest.param(("", ""), marks=off)], ids=["none"])


def test_every_quirk_that_shows_on_the_wire_is_pinned() -> None:
    config = load(home=FOLDER / "no-such-folder", environ={})
    known = {(name, quirk.id) for name in built_in() for quirk in load_preset(name, config).quirks}
    assert {quirk for quirk in known if quirk[1] not in NOT_ON_THE_WIRE} == set(PINS)
    assert {(path.parent.name, path.stem) for path in FOLDER.glob("*/*.jsonl")} == set(PINS)


@pytest.mark.parametrize("pin", PINS, ids="-".join)
def test_the_recording_shows_the_quirk(pin: tuple[str, str]) -> None:
    agent, quirk = pin
    lines = (FOLDER / agent / f"{quirk}.jsonl").read_bytes().splitlines()
    assert PINS[pin].check(Recording(lines))


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_the_quirk_is_there_and_is_recorded(
    live: tuple[str, str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    name, quirk = live
    [agent] = [agent for agent in AGENTS if agent.id == name]
    auxiliary_reply = AUXILIARY_REPLY if PINS[live].errands else None
    limit = TIMEOUT_S + agent.load_after
    async with (
        staged(agent, tmp_path, request.config, auxiliary_reply=auxiliary_reply) as stage,
        asyncio.timeout(limit),
    ):
        await PINS[live].scene(stage)
        recording = scrubbed(stage.lines, stage)
    assert PINS[live].check(Recording(recording.splitlines()))
    assert len(recording) <= LARGEST
    path = FOLDER / name / f"{quirk}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(recording)
