"""What stands where a user speaks, told apart."""

from __future__ import annotations

import pytest

from dragoman.translate.claude.words import Task, Words, joined, read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is 1 < 2?", Words(prompt="What is 1 < 2?")),
        ("  spaces stay\n", Words(prompt="  spaces stay\n")),
        ("[Request interrupted by user]", Words(interrupted=True)),
        ("[Request interrupted by user for tool use]", Words(interrupted=True)),
        ("Hi<system-reminder>x</system-reminder> there", Words(prompt="Hi there")),
        ("<ide_opened_file>a.py</ide_opened_file>", Words(injected="ide_opened_file")),
        ("<ide_selection>a</ide_selection>Why?", Words(prompt="Why?")),
        ("What does <system-reminder> do?", Words(prompt="What does <system-reminder> do?")),
        (
            "<command-message>x is running…</command-message>\n<command-name>/x</command-name>",
            Words(command="/x", injected="command-message"),
        ),
        (
            "<command-name>/x</command-name> <command-args> a b </command-args>",
            Words(command="/x a b", injected="command-name"),
        ),
        ("<command-name>/model</command-name>", Words(hidden=True, injected="command-name")),
        (
            "<local-command-stdout>\x1b[1mBold\x1b[22m</local-command-stdout>",
            Words(output="Bold", injected="local-command-stdout"),
        ),
        (
            "<local-command-stdout>(no content)</local-command-stdout>",
            Words(injected="local-command-stdout"),
        ),
        ("<bash-input>ls</bash-input>", Words(shell="ls", injected="bash-input")),
        (
            "<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>",
            Words(output="a\nb", injected="bash-stdout"),
        ),
        (
            '<teammate-message teammate_id="bob">Hi</teammate-message>',
            Words(
                prompt='<teammate-message teammate_id="bob">Hi</teammate-message>', injected="teammate-message"
            ),
        ),
        (
            "<task-notification><task-id>b1</task-id><status>killed</status><summary>S</summary></task-notification>",
            Words(tasks=(Task("b1", "", "killed", "S"),), injected="task-notification"),
        ),
        (
            "<task-notification><task-id>b1</task-id></task-notification>\nFull transcript available at: /x.output",
            Words(tasks=(Task("b1"),), injected="task-notification"),
        ),
        (
            "See <task-notification><task-id>b1</task-id></task-notification>",
            Words(prompt="See ", tasks=(Task("b1"),)),
        ),
    ],
)  # fmt: skip
def test_a_text_is_told_apart(text: str, words: Words) -> None:
    assert read(text) == words


def test_several_texts_of_a_message_are_taken_together() -> None:
    both = joined([read("<ide_opened_file>a</ide_opened_file>"), read("Fix it")])
    assert both == Words(prompt="Fix it", injected="ide_opened_file")


def test_a_text_full_of_open_tags_is_gone_through_once() -> None:
    text = "<system-reminder>" * 50_000
    assert read(text) == Words(prompt=text)
