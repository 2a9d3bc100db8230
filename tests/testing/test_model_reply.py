"""Which part of the script answers a request, decided from the request alone."""

from __future__ import annotations

import msgspec
import pytest

from dragoman.testing.model.conversation import (
    AUXILIARY_REPLY,
    TEXT_AFTER_END,
    Assistant,
    Call,
    Conversation,
    Entry,
    Reply,
    Result,
    Text,
    Tool,
    User,
    merge_parts,
    reply_to,
    sample,
)

TOOLS = (Tool("mcp__files__read"), Tool("write"))


def reply_for(*entries: Entry, tools: tuple[Tool, ...] = TOOLS, schema: bytes = b"") -> Reply:
    conversation = Conversation(
        key="k", model="m", entries=tuple(entries), tools=tools, schema=msgspec.Raw(schema), size=400
    )
    return reply_to(conversation)


def text_of_reply(reply: Reply) -> str:
    return "".join(part.text for part in reply.parts if isinstance(part, Text))


def called(reply: Reply) -> list[str]:
    return [part.tool.name for part in reply.parts if isinstance(part, Call)]


SCRIPT = User("[[say:One.]][[tool:write {}]][[say:Two.]][[tool:write {} + write {}]][[say:Three.]]")


def test_a_request_is_answered_up_to_the_next_call() -> None:
    reply = reply_for(SCRIPT)
    assert (text_of_reply(reply), called(reply)) == ("One.", ["write"])


def test_each_result_moves_the_script_past_a_call() -> None:
    reply = reply_for(SCRIPT, Assistant(1), Result("ok"))
    assert (text_of_reply(reply), called(reply)) == ("Two.", ["write", "write"])


def test_calls_made_at_once_are_passed_by_all_of_their_results() -> None:
    reply = reply_for(SCRIPT, Assistant(1), Result("ok"), Assistant(2), Result("ok"), Result("ok"))
    assert (text_of_reply(reply), called(reply)) == ("Three.", [])


def test_after_its_end_a_script_says_a_last_word() -> None:
    assert text_of_reply(reply_for(User("[[tool:write]]"), Assistant(1), Result("ok"))) == TEXT_AFTER_END


def test_text_that_an_agent_adds_beside_a_prompt_or_a_result_changes_nothing() -> None:
    entries = (User("Today is Monday."), SCRIPT, User("Remember the rules."))
    assert text_of_reply(reply_for(*entries)) == "One."
    assert text_of_reply(reply_for(*entries, Assistant(1), Result("ok"), User("Remember the rules."))) == "Two."


def test_the_last_prompt_with_directives_counts_and_results_before_it_do_not() -> None:
    entries = (User("[[tool:write]]"), Assistant(1), Result("ok"), Assistant(), User("[[say:New.]][[tool:write]]"))
    assert text_of_reply(reply_for(*entries)) == "New."


def test_a_prompt_without_directives_is_echoed_and_does_not_repeat_the_script_before_it() -> None:
    assert "It begins: hello there" in text_of_reply(reply_for(User("hello there")))
    assert "It begins: and now?" in text_of_reply(reply_for(User("[[say:Old.]]"), Assistant(), User("and now?")))


def test_directives_in_results_are_not_followed() -> None:
    assert (
        text_of_reply(reply_for(User("[[tool:write]][[say:Mine.]]"), Assistant(1), Result("[[say:Theirs.]]")))
        == "Mine."
    )


@pytest.mark.parametrize(
    ("wanted", "name"),
    [("write", "write"), ("create|write", "write"), ("~read", "mcp__files__read"), ("none|~read", "mcp__files__read")],
)
def test_tools_are_chosen_among_the_offered_ones(wanted: str, name: str) -> None:
    assert called(reply_for(User(f"[[tool:{wanted}]]"))) == [name]


def test_a_plain_name_that_is_not_offered_is_called_all_the_same() -> None:
    assert called(reply_for(User("[[tool:no_such]]"))) == ["no_such"]


def test_the_end_of_a_name_that_nobody_offers_is_told() -> None:
    reply = reply_for(User("[[tool:~absent]]"))
    assert called(reply) == []
    assert "mcp__files__read, write" in text_of_reply(reply)


def test_results_memory_and_tools_can_be_told() -> None:
    script = User("[[tool:write]][[result]]")
    assert text_of_reply(reply_for(script, Assistant(1), Result("all of it"))) == "all of it"
    assert text_of_reply(reply_for(User("[[tools]]"))) == "mcp__files__read, write"
    entries = (User("[[say:Azure.]]"), Assistant(), User("[[say:Teal.]]"), Assistant(), User("[[recall]]"))
    assert text_of_reply(reply_for(*entries)) == "I said before: Azure. | Teal."


def test_an_errand_without_tools_gets_a_fixed_text() -> None:
    assert text_of_reply(reply_for(SCRIPT, tools=())) == AUXILIARY_REPLY


def test_an_errand_with_a_schema_gets_json_that_fits_it() -> None:
    schema = b'{"type": "object", "properties": {"title": {"type": "string"}}, "required": ["title"]}'
    assert text_of_reply(reply_for(SCRIPT, tools=(), schema=schema)) == f'{{"title":"{AUXILIARY_REPLY}"}}'


def test_requests_without_tools_can_be_scripted_too() -> None:
    conversation = Conversation(key="k", model="m", entries=(User("[[say:Yes.]]"),))
    assert text_of_reply(reply_to(conversation, auxiliary_reply=None)) == "Yes."


def test_samples_fit_the_common_parts_of_json_schema() -> None:
    schema = {
        "type": "OBJECT",
        "required": ["who", "n", "yes", "many", "maybe", "one"],
        "properties": {
            "who": {"type": "STRING", "enum": ["user", "model"]},
            "n": {"type": "integer"},
            "yes": {"type": "boolean"},
            "many": {"type": "array"},
            "maybe": {"type": ["null", "string"]},
            "one": {"anyOf": [{"type": "number"}, {"type": "string"}]},
        },
    }
    assert sample(schema, "x") == {"who": "user", "n": 0, "yes": False, "many": [], "maybe": None, "one": 0}


def test_text_comes_in_deltas_that_end_with_sentences_and_lose_nothing() -> None:
    text = "  A first one. And then a second,\nlonger one!  Third? "
    parts = reply_for(User(f"[[say:{text}]]")).parts
    assert [part.text for part in parts if isinstance(part, Text)] == [
        "  A first one. ",
        "And then a ",
        "second,\nlonger one!  ",
        "Third? ",
    ]
    assert merge_parts(parts) == [Text(text)]


def test_usage_is_estimated_unless_the_script_gives_it() -> None:
    estimated, given = reply_for(User("[[say:12345678]]")), reply_for(User("[[usage:7:9]][[say:x]]"))
    assert (estimated.input_tokens, estimated.output_tokens) == (101, 3)
    assert (given.input_tokens, given.output_tokens) == (7, 9)


def test_a_script_that_cannot_be_read_is_told_in_the_answer() -> None:
    assert "not JSON" in text_of_reply(reply_for(User("[[tool:a {x}]]")))
