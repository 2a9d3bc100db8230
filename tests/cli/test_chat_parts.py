"""Status line, completion, mentions, commands and history of a chat, without a terminal."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from dragoman.cli.chat import completion as chat_history
from dragoman.cli.chat.commands import COMMANDS, mentions, prompt_parts, read_command
from dragoman.cli.chat.completion import ChatCompleter, ChatHistory
from dragoman.cli.chat.screen import Activity, status_line
from dragoman.cli.screen import without_colours
from dragoman.cli.text import columns
from dragoman.errors import InputError
from dragoman.record import rows
from dragoman.record.fold import SessionFold
from dragoman.session.capabilities import Capabilities
from dragoman.session.prompt import FileAttachment, LinkAttachment
from dragoman.session.templates import Template
from dragoman.wire.vocabulary import Cost


def fold() -> SessionFold:
    known = SessionFold()
    known.commands = (
        rows.Command("plan", "makes a plan"),
        rows.Command("play", "\x1b[31mplays\nnow", "GAME"),
        rows.Command("two words", "cannot be typed"),
    )
    choices = (rows.Choice("fast-1", "Fast", "quick"), rows.Choice("deep-1", "Deep"))
    known.settings = {
        "model": rows.Setting(id="model", name="Model", category="model", current="fast-1", choices=choices),
        "sound": rows.Setting(id="sound", name="Sound", category=None, current=True),
    }
    return known


# -- status


def shown(known: SessionFold | None, width: int = 120, doing: Activity | None = None) -> str:
    return without_colours(status_line("Agent", "ask", known, doing, 12.0, width))


def test_the_status_shows_reported_figures_and_names_the_missing_ones() -> None:
    known = fold()
    assert (
        shown(known)
        == "Agent · model fast-1 · mode not reported · context not reported · cost not reported · access ask"
    )
    known.usage = rows.Usage(context_used=1500, context_size=8000, cost=Cost(amount=0.5, currency="USD"))
    assert shown(known) == "Agent · model fast-1 · mode not reported · context 1.5k of 8k · 0.5000 USD · access ask"


def test_a_narrow_terminal_gets_the_most_important_parts() -> None:
    known = fold()
    known.usage = rows.Usage(context_used=1500, context_size=8000)
    assert shown(known, 40) == "Agent · context 1.5k of 8k"
    for width in range(1, 120):
        assert columns(shown(known, width, Activity("working", 2.0))) <= max(width, columns("⠋ working 10s"))


def test_the_current_activity_comes_first_with_its_time() -> None:
    assert shown(fold(), 60, Activity("working", 2.0))[1:].startswith(" working 10s · Agent · ")
    assert shown(None) == "Agent · access ask"


# -- completion


def offered(
    text: str, cwd: Path = Path("/"), known: SessionFold | None = None, templates: tuple[Template, ...] = ()
) -> list[str]:
    completer = ChatCompleter(lambda: known or fold(), cwd, lambda: templates)
    return [found.text for found in completer.get_completions(Document(text), CompleteEvent())]


def test_commands_are_offered_at_the_beginning_only() -> None:
    own = [f"/{command.name}" + (" " if command.arguments else "") for command in COMMANDS]
    assert offered("/") == [*own, "/plan", "/play "]
    assert offered("/PLA") == ["/plan", "/play "]
    assert offered("see /pl") == []
    assert offered("/plan a") == []
    assert offered("/mod") == ["/model ", "/mode "]
    assert offered("a /mod") == []


def test_templates_are_offered_after_commands_unless_a_command_has_their_name() -> None:
    templates = tuple(
        Template(name=name, description="does it", hint=hint, path=Path(f"/{name}.md"), place="workspace", body="x")
        for name, hint in (("plaster", ""), ("plank", "SIZE"), ("plan", ""), ("model", ""))
    )
    assert offered("/pla", templates=templates) == ["/plan", "/play ", "/plaster", "/plank "]
    assert offered("/mod", templates=templates) == ["/model ", "/mode "]
    assert offered("x /pla", templates=templates) == []


def test_a_command_of_the_agent_with_the_name_of_ours_is_offered_once() -> None:
    known = fold()
    known.commands = (rows.Command("model", "the agent's own"),)
    assert offered("/mod", known=known) == ["/model ", "/mode "]


def test_values_are_offered_by_value_and_by_name() -> None:
    assert offered("/model ") == ["fast-1", "deep-1"]
    assert offered("/model De") == ["deep-1"]
    assert offered("/mode ") == []
    assert offered("/option ") == ["model", "sound"]
    assert offered("/option sound o") == ["on", "off"]
    assert offered("/option model f") == ["fast-1"]
    assert offered("/access ") == ["read-only", "ask", "edit-inside", "full"]


def test_an_agents_description_of_a_command_is_one_inert_line() -> None:
    completer = ChatCompleter(fold, Path("/"))
    completion = next(iter(completer.get_completions(Document("/play"), CompleteEvent())))
    assert (completion.display_text, completion.display_meta_text) == ("/play GAME", "plays now")


def test_files_are_offered_folder_by_folder(tmp_path: Path) -> None:
    (tmp_path / "src" / "deep").mkdir(parents=True)
    for name in ("src/a.py", "notes.md", ".hidden", "with space"):
        (tmp_path / name).write_text("")
    assert offered("look at @", tmp_path) == ["@src/", "@notes.md"]
    assert offered("@src/", tmp_path) == ["@src/deep/", "@src/a.py"]
    assert offered("@.h", tmp_path) == ["@.hidden"]
    assert offered(f"@{tmp_path}/no", tmp_path) == [f"@{tmp_path}/notes.md"]
    assert offered("@nowhere/", tmp_path) == []
    assert offered("mail@no", tmp_path) == []


# -- mentions


def test_only_an_existing_path_is_a_mention(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "with space").write_text("b")
    (tmp_path / "src").mkdir()
    text = 'see @a.py, @"with space" and (@a.py) @src/, not @nobody, me@a.py, @\0 or @' + "x" * 5000
    found = mentions(text, tmp_path)
    assert [mention.name for mention in found] == ["a.py", "with space", "src/"]


def test_a_short_text_file_is_attached_whole_and_others_as_links(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("a")
    (tmp_path / "big").write_bytes(b"x" * 300_000)
    (tmp_path / "picture").write_bytes(b"\xff\xfe")
    found = mentions("@a.py @big @picture @.", tmp_path)
    able = Capabilities(protocol_version=1, embedded_context=True)
    text, *parts = prompt_parts("look", found, able)
    assert text == "look"
    assert [type(part) for part in parts] == [FileAttachment, LinkAttachment, LinkAttachment, LinkAttachment]
    assert all(
        isinstance(part, LinkAttachment) for part in prompt_parts("", found, Capabilities(protocol_version=1))[1:]
    )


# -- commands


@pytest.mark.parametrize(
    ("text", "command"),
    [
        ("/model", ("model", "")),
        ("/model  big one ", ("model", "big one")),
        ("/quit\n", ("quit", "")),
        ("/exit", ("quit", "")),
    ],
)
def test_a_command_is_a_slash_and_a_word(text: str, command: tuple[str, str]) -> None:
    assert read_command(text) == command


@pytest.mark.parametrize(
    "text", ["/", "/ help", " /help", "a /help", "/help\nand more", "/usr/bin", "/plan", "/tmp is full", ":help", "//"]
)
def test_other_lines_go_to_the_agent(text: str) -> None:
    assert read_command(text) is None


def test_a_misspelt_command_suggests_the_nearest_one() -> None:
    with pytest.raises(InputError) as failure:
        read_command("/quti")
    assert "Did you mean /quit?" in failure.value.guidance
    assert read_command("/quti", ["quti"]) is None  # the agent has a command of this name


def test_all_commands_that_may_be_meant_are_suggested() -> None:
    with pytest.raises(InputError) as failure:
        read_command("/modle")
    assert "Did you mean /mode or /model?" in failure.value.guidance


# -- history


def test_each_workspace_has_its_own_history(tmp_path: Path) -> None:
    home = tmp_path / "home"
    here = ChatHistory(home, tmp_path / "here")
    here.store_string("first\nwith two lines")
    here.store_string(" not this")
    ChatHistory(home, tmp_path / "there").store_string("elsewhere")
    here.store_string("second")
    history_file = home / chat_history.FILE_NAME
    with history_file.open("a") as file:
        file.write('broken\n{"cwd": 1}\n')
    assert list(ChatHistory(home, tmp_path / "here").load_history_strings()) == ["second", "first\nwith two lines"]
    assert stat.S_IMODE(history_file.stat().st_mode) == 0o600


def test_a_history_that_is_too_long_loses_its_older_half(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_history, "MAX_HISTORY_BYTES", 2000)
    history = ChatHistory(tmp_path, tmp_path)
    for number in range(200):
        history.store_string(f"prompt {number}")
    prompts = list(history.load_history_strings())
    assert prompts[0] == "prompt 199"
    assert (tmp_path / chat_history.FILE_NAME).stat().st_size <= 2000
    assert [path.name for path in tmp_path.iterdir()] == [chat_history.FILE_NAME]


def test_a_history_that_cannot_be_written_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    history = ChatHistory(tmp_path / "file", tmp_path)
    history.store_string("said")
    assert list(history.load_history_strings()) == []
