"""Several sessions on one process of a real agent: texts, what the model is shown, settings that are switched."""

from __future__ import annotations

import asyncio
import base64

import pytest

from dragoman import events
from dragoman.record.rows import Setting
from dragoman.session.context import ContextSource
from dragoman.session.prompt import FileAttachment, ImageAttachment

from .acts import all_events
from .conftest import Shared

# The first test of an agent may have to install it.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600), pytest.mark.asyncio(loop_scope="module")]

DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
"""A PNG image of one pixel."""


async def test_the_handshake_has_version_and_capabilities(shared: Shared) -> None:
    capabilities = shared.runtime.capabilities()
    assert capabilities.protocol_version == 1
    assert capabilities.agent_version == shared.agent.reported
    async with shared.session() as session:
        assert session.status() == "idle"
        handle = session.snapshot()
        assert handle.agent == shared.agent.id
        assert handle.agent_session_id


async def test_text_comes_in_deltas_and_in_order(shared: Shared) -> None:
    async with shared.session() as session:
        seen = await all_events(session.run("[[say:One. Two. Three. Four.]]"))
        deltas = [event.text for event in seen if isinstance(event, events.AssistantDelta)]
        assert (len(deltas) > 1) == shared.agent.streams
        assert "".join(deltas) == "One. Two. Three. Four."
        last = seen[-1]
        assert isinstance(seen[0], events.RunStarted)
        assert isinstance(last, events.RunCompleted)
        assert (last.status, last.stop_reason, last.text) == ("success", "end_turn", "One. Two. Three. Four.")
        if not shared.agent.streams:
            pytest.skip(f"{shared.agent.id} tells a message whole, not in deltas")


async def test_thoughts_are_separate_from_text(shared: Shared) -> None:
    async with shared.session() as session:
        seen = await all_events(session.run("[[think:Considering.]][[say:Considered.]]"))
        thoughts = "".join(event.text for event in seen if isinstance(event, events.ReasoningDelta))
        text = "".join(event.text for event in seen if isinstance(event, events.AssistantDelta))
        assert text == "Considered."
        if not shared.agent.tells_thoughts:
            assert not thoughts
            pytest.skip(f"{shared.agent.id} does not tell thoughts")
        assert "Considering." in thoughts


async def test_two_sessions_run_side_by_side(shared: Shared) -> None:
    async with shared.session() as first, shared.session() as second:
        runs = [first.run("[[say:First.]][[slow:5:0.05]]"), second.run("[[say:Second.]][[slow:5:0.05]]")]
        results = [await run for run in runs]
        words = "word1 word2 word3 word4 word5"
        assert [result.text.strip() for result in results] == [f"First.{words}", f"Second.{words}"]


async def test_simultaneous_prompts_are_sent_one_after_the_other(shared: Shared) -> None:
    async with shared.session() as session:
        runs = [session.run(f"[[say:Number {number}.]][[slow:3:0.02]]") for number in range(3)]
        results = [await run for run in runs]
        assert [result.text.split("word")[0].strip() for result in results] == ["Number 0.", "Number 1.", "Number 2."]
        texts: list[str] = []
        waiting: set[object] = set()
        for frame in shared.stage.frames:
            if frame.method == "session/prompt" and frame.session_id == session.agent_session_id:
                texts.append("prompt")
                waiting.add(frame.id)
            elif frame.dir == "in" and frame.method is None and frame.id in waiting:
                texts.append("answer")
        assert texts == ["prompt", "answer"] * 3


async def test_an_image_in_the_prompt_reaches_the_model(shared: Shared) -> None:
    if not shared.runtime.capabilities().image:
        pytest.skip(f"{shared.agent.id} does not offer promptCapabilities.image")
    async with shared.session() as session:
        result = await session.run(["What is this? [[say:A dot.]]", ImageAttachment(DOT, "image/png")])
        assert result.text == "A dot."
        assert shared.requests.had(base64.b64encode(DOT).decode()) or shared.requests.had("image/png;base64,")


async def test_a_file_in_the_prompt_reaches_the_model(shared: Shared) -> None:
    """Embedded where the agent takes that, as text where not."""
    folder = shared.folder()
    (folder / "note.txt").write_text("The code word is heliotrope.")
    async with shared.session(folder=folder) as session:
        result = await session.run(["Read this. [[say:Heard.]]", FileAttachment(folder / "note.txt")])
        assert result.text == "Heard."
        if not shared.agent.shows_files:
            assert shared.requests.had("note.txt")
            pytest.skip(f"{shared.agent.id} shows the model the file's path, not its text")
        assert shared.requests.had("The code word is heliotrope.")


async def test_skills_instructions_and_templates_reach_the_model(shared: Shared) -> None:
    folder = shared.folder()
    for name, description, body in (
        ("orchard", "How trees are kept", "Prune in February, says the almanac."),
        ("cellar", "How casks are marked, with vermilion", "Only listed."),
    ):
        (folder / "skills" / name).mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: {description}\n---\n{body}\n"
        (folder / "skills" / name / "SKILL.md").write_text(text)
    (folder / "prompts").mkdir()
    (folder / "prompts/ask-the-gardener.md").write_text("Tell $1 about it. [[say:Heard.]]")
    shared.runtime.context = ContextSource(shared.stage.home / ".dragoman", user_home=shared.stage.home)
    try:
        async with shared.session(folder=folder, custom_instructions="Answer in quatrains.") as session:
            result = await session.run("/ask-the-gardener Ada", skills=["orchard"])
            assert [row.text for row in session.fold.messages if row.kind == "user"] == ["/ask-the-gardener Ada"]
    finally:
        shared.runtime.context = None
    assert result.text == "Heard."
    expected = ("Tell Ada about it.", "Prune in February, says the almanac.", "vermilion", "Answer in quatrains.")
    assert [text for text in expected if not shared.requests.had(text)] == []
    assert not shared.requests.had("Only listed.")


def other_value(setting: Setting | None) -> str | bool | None:
    """Something to switch to: the next of the choices."""
    if setting is None:
        return None
    if isinstance(setting.current, bool):
        return not setting.current
    choices = [choice.value for choice in setting.choices]
    if len(choices) < 2:
        return None
    at = choices.index(setting.current) if setting.current in choices else -1
    return choices[(at + 1) % len(choices)]


@pytest.mark.parametrize("category", ["mode", "model"])
async def test_a_setting_is_switched_and_the_session_continues(shared: Shared, category: str) -> None:
    async with shared.session() as session:
        other = other_value(session.fold.setting(category))
        if not isinstance(other, str):
            pytest.skip(f"{shared.agent.id} offers no {category}s to choose from")
        await (session.set_mode(other) if category == "mode" else session.set_model(other))
        now = session.fold.setting(category)
        assert now is not None
        assert now.current == other
        assert (await session.run("[[say:Switched.]]")).text == "Switched."
        if category == "model" and other.startswith("scripted"):
            assert shared.requests.had(other.rpartition("/")[2])


async def test_another_option_is_switched_and_the_session_continues(shared: Shared) -> None:
    async with shared.session() as session:
        others = [option for option in session.fold.settings.values() if option.category not in ("mode", "model")]
        switchable = [(option, other_value(option)) for option in others if option.id != "provider"]
        chosen = next(((option, value) for option, value in switchable if value is not None), None)
        if chosen is None:
            pytest.skip(f"{shared.agent.id} offers no options but mode and model")
        option, value = chosen
        await session.set_option(option.id, value)
        assert session.fold.settings[option.id].current == value
        assert (await session.run("[[say:Switched.]]")).text == "Switched."


async def test_a_slash_command_is_advertised_and_carried_out(shared: Shared) -> None:
    folder = shared.folder()
    for name, text in shared.agent.command_files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    advertised = asyncio.Event()

    def hear(event: events.Event) -> None:
        if isinstance(event, events.ProviderEvent) and event.kind == "available_commands_update":
            advertised.set()

    async with shared.session(folder=folder, on_event=hear) as session:
        await session.run("[[say:Ready.]]")
        if shared.agent.command is None:
            assert not session.fold.commands
            pytest.skip(f"{shared.agent.id} advertises no slash commands")
        prompt, answer = shared.agent.command
        name = prompt.split()[0].removeprefix("/")
        while name not in {command.name for command in session.fold.commands}:
            advertised.clear()
            await advertised.wait()
        result = await session.run(prompt)
        assert result.status == "success"
        assert answer in result.text
