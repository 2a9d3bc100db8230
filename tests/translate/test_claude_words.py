"""Texts in the user's role, taken apart."""

from __future__ import annotations

import pytest

from dragoman.translate.claude.records import TaskNews, UserText, join_user_texts, parse_user_text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is 1 < 2?", UserText(prompt="What is 1 < 2?")),
        ("  spaces stay\n", UserText(prompt="  spaces stay\n")),
        ("[Request interrupted by user]", UserText(interrupted=True)),
        ("[Request interrupted by user for tool use]", UserText(interrupted=True)),
        ("Hi<system-reminder>x</system-reminder> there", UserText(prompt="Hi there")),
        ("<ide_opened_file>a.py</ide_opened_file>", UserText(injected="ide_opened_file")),
        ("<ide_selection>a</ide_selection>Why?", UserText(prompt="Why?")),
        ("What does <system-reminder> do?", UserText(prompt="What does <system-reminder> do?")),
        (
            "<command-message>x is running…</command-message>\n<command-name>/x</command-name>",
            UserText(command="/x", injected="command-message"),
        ),
        (
            "<command-name>/x</command-name> <command-args> a b </command-args>",
            UserText(command="/x a b", injected="command-name"),
        ),
        ("<command-name>/model</command-name>", UserText(hidden=True, injected="command-name")),
        (
            "<local-command-stdout>\x1b[1mBold\x1b[22m</local-command-stdout>",
            UserText(output="Bold", injected="local-command-stdout"),
        ),
        (
            "<local-command-stdout>(no content)</local-command-stdout>",
            UserText(injected="local-command-stdout"),
        ),
        ("<bash-input>ls</bash-input>", UserText(shell="ls", injected="bash-input")),
        (
            "<bash-stdout>a</bash-stdout><bash-stderr>b</bash-stderr>",
            UserText(output="a\nb", injected="bash-stdout"),
        ),
        (
            '<teammate-message teammate_id="bob">Hi</teammate-message>',
            UserText(
                prompt='<teammate-message teammate_id="bob">Hi</teammate-message>', injected="teammate-message"
            ),
        ),
        (
            "<task-notification><task-id>b1</task-id><status>killed</status><summary>S</summary></task-notification>",
            UserText(tasks=(TaskNews("b1", "", "killed", "S"),), injected="task-notification"),
        ),
        (
            "<task-notification><task-id>b1</task-id></task-notification>\nFull transcript available at: /x.output",
            UserText(tasks=(TaskNews("b1"),), injected="task-notification"),
        ),
        (
            "See <task-notification><task-id>b1</task-id></task-notification>",
            UserText(prompt="See ", tasks=(TaskNews("b1"),)),
        ),
    ],
)  # fmt: skip
def test_a_text_is_split_into_its_parts(text: str, words: UserText) -> None:
    assert parse_user_text(text) == words


def test_several_texts_of_a_message_are_combined() -> None:
    both = join_user_texts([parse_user_text("<ide_opened_file>a</ide_opened_file>"), parse_user_text("Fix it")])
    assert both == UserText(prompt="Fix it", injected="ide_opened_file")


def test_a_text_full_of_open_tags_is_searched_once() -> None:
    text = "<system-reminder>" * 50_000
    assert parse_user_text(text) == UserText(prompt=text)
