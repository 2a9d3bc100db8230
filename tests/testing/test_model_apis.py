"""The four APIs: a request is read to the same conversation, and a reply says the same in each one's words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from dragoman.testing.model.server import ModelAnswer, answer_request

PROMPT = '[[usage:7:9]][[think:Hm.]][[say:One. Two.]][[tool:first {"a": 1} + second {}]][[say:Done.]]'
PATHS = {
    "chat": "/v1/chat/completions",
    "responses": "/v1/responses",
    "anthropic": "/v1/messages",
    "gemini": "/v1beta/models/m:streamGenerateContent",
}


def request(api: str, *, stream: bool = True, results: bool = False, tools: bool = True) -> dict[str, Any]:
    """Return the same conversation in the form of each API."""
    names = ["first", "second"] if tools else []
    match api:
        case "chat":
            messages: list[Any] = [{"role": "system", "content": "[[say:no]]"}, {"role": "user", "content": PROMPT}]
            if results:
                calls = [{"id": name, "type": "function", "function": {"name": name}} for name in names]
                messages.append({"role": "assistant", "content": None, "tool_calls": calls})
                messages += [{"role": "tool", "tool_call_id": name, "content": "ok"} for name in names]
            offered: list[Any] = [{"type": "function", "function": {"name": name}} for name in names]
            return {"model": "m", "messages": messages, "tools": offered, "stream": stream}
        case "responses":
            content = [{"type": "input_text", "text": PROMPT}]
            items: list[Any] = [{"type": "message", "role": "user", "content": content}]
            if results:
                items += [{"type": "function_call", "call_id": name, "name": name} for name in names]
                items += [{"type": "function_call_output", "call_id": name, "output": "ok"} for name in names]
            offered = [{"type": "function", "name": name} for name in names]
            return {"model": "m", "input": items, "tools": offered, "stream": stream}
        case "anthropic":
            messages = [{"role": "user", "content": [{"type": "text", "text": PROMPT}]}]
            if results:
                uses = [{"type": "tool_use", "id": name, "name": name, "input": {}} for name in names]
                outcome = [{"type": "tool_result", "tool_use_id": name, "content": "ok"} for name in names]
                messages += [{"role": "assistant", "content": uses}, {"role": "user", "content": outcome}]
            return {"model": "m", "messages": messages, "tools": [{"name": name} for name in names], "stream": stream}
        case _:
            contents: list[Any] = [{"role": "user", "parts": [{"text": PROMPT}]}]
            if results:
                contents.append({"role": "model", "parts": [{"functionCall": {"name": name}} for name in names]})
                outcomes = [{"functionResponse": {"name": name, "response": {"output": "ok"}}} for name in names]
                contents.append({"role": "user", "parts": outcomes})
            declared = [{"functionDeclarations": [{"name": name} for name in names]}] if names else []
            return {"contents": contents, "tools": declared}


def request_answer(api: str, **options: bool) -> ModelAnswer:
    path, query = PATHS[api], "alt=sse"
    if api == "gemini" and not options.get("stream", True):
        path = path.replace("streamGenerateContent", "generateContent")
    return answer_request("POST", path, query, msgspec.json.encode(request(api, **options)), auxiliary_reply="Errand")


def data(found: ModelAnswer) -> Iterator[Any]:
    """Yield the data of the events of a stream."""
    assert found.events is not None
    for part in found.events:
        assert isinstance(part, bytes)
        for line in part.decode().splitlines():
            if line.startswith("data: {"):
                yield msgspec.json.decode(line.removeprefix("data: "))


def streamed(api: str, **options: bool) -> tuple[str, str, list[tuple[str, Any]]]:
    """Read thoughts, text and calls from a stream, as a client of that API does."""
    thoughts, text, calls = "", "", dict[str, tuple[str, str]]()
    blocks: dict[int, str] = {}
    for event in data(request_answer(api, **options)):
        match api:
            case "chat":
                for choice in event["choices"]:
                    thoughts += choice["delta"].get("reasoning_content") or ""
                    text += choice["delta"].get("content") or ""
                    for call in choice["delta"].get("tool_calls", ()):
                        calls[call["id"]] = (call["function"]["name"], call["function"]["arguments"])
            case "responses":
                match event["type"]:
                    case "response.reasoning_summary_text.delta":
                        thoughts += event["delta"]
                    case "response.output_text.delta":
                        text += event["delta"]
                    case "response.output_item.done" if event["item"]["type"] == "function_call":
                        item = event["item"]
                        calls[item["call_id"]] = (item["name"], item["arguments"])
                    case _:
                        pass
            case "anthropic":
                match event["type"]:
                    case "content_block_start" if event["content_block"]["type"] == "tool_use":
                        block = event["content_block"]
                        blocks[event["index"]] = block["id"]
                        calls[block["id"]] = (block["name"], "")
                    case "content_block_delta":
                        delta = event["delta"]
                        thoughts += delta.get("thinking", "")
                        text += delta.get("text", "")
                        if "partial_json" in delta:
                            id = blocks[event["index"]]
                            calls[id] = (calls[id][0], calls[id][1] + delta["partial_json"])
                    case _:
                        pass
            case _:
                for part in event["candidates"][0]["content"]["parts"]:
                    if "functionCall" in part:
                        call = part["functionCall"]
                        calls[call["id"]] = (call["name"], msgspec.json.encode(call["args"]).decode())
                    elif part.get("thought"):
                        thoughts += part["text"]
                    else:
                        text += part["text"]
    return thoughts, text, [(name, msgspec.json.decode(arguments)) for name, arguments in calls.values()]


@pytest.fixture(params=list(PATHS))
def api(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_thoughts_text_and_calls_are_streamed(api: str) -> None:
    assert streamed(api) == ("Hm.", "One. Two.", [("first", {"a": 1}), ("second", {})])


def test_results_bring_the_next_part_of_the_script(api: str) -> None:
    assert streamed(api, results=True) == ("", "Done.", [])


def test_a_request_without_tools_is_an_errand(api: str) -> None:
    assert streamed(api, tools=False) == ("", "Errand", [])


def test_the_same_request_gets_the_same_bytes(api: str) -> None:
    assert list(request_answer(api).events or ()) == list(request_answer(api).events or ())


def test_an_answer_can_be_sent_whole(api: str) -> None:
    found = request_answer(api, stream=False)
    assert (found.status, found.events) == (200, None)
    whole = msgspec.json.decode(found.body)
    match api:
        case "chat":
            message = whole["choices"][0]["message"]
            assert (message["content"], message["reasoning_content"]) == ("One. Two.", "Hm.")
            assert [call["function"]["name"] for call in message["tool_calls"]] == ["first", "second"]
            assert whole["choices"][0]["finish_reason"] == "tool_calls"
            assert whole["usage"] == {"prompt_tokens": 7, "completion_tokens": 9, "total_tokens": 16}
        case "responses":
            kinds = [item["type"] for item in whole["output"]]
            assert kinds == ["reasoning", "message", "function_call", "function_call"]
            assert whole["usage"]["total_tokens"] == 16
        case "anthropic":
            assert [block["type"] for block in whole["content"]] == ["thinking", "text", "tool_use", "tool_use"]
            assert whole["stop_reason"] == "tool_use"
            assert (whole["usage"]["input_tokens"], whole["usage"]["output_tokens"]) == (7, 9)
        case _:
            parts = whole["candidates"][0]["content"]["parts"]
            assert [part.get("text") for part in parts] == ["Hm.", "One. Two.", None, None]
            assert whole["usageMetadata"]["totalTokenCount"] == 16


def test_a_request_that_cannot_be_read_is_answered_with_what_is_wrong(api: str) -> None:
    found = answer_request("POST", PATHS[api], "", b'{"messages": 1, "input": 1, "contents": 1}', auxiliary_reply=None)
    assert found.status == 400
    assert "cannot read this request" in msgspec.json.decode(found.body)["error"]["message"]


def test_a_status_of_the_script_comes_in_the_shape_of_the_api(api: str) -> None:
    body = msgspec.json.encode(request(api)).replace(b"[[think:Hm.]]", b"[[hang:2]][[http:503]]")
    found = answer_request("POST", PATHS[api], "alt=sse", body, auxiliary_reply=None)
    assert (found.status, found.wait_s) == (503, 2.0)
    assert "503" in msgspec.json.decode(found.body)["error"]["message"]


def test_a_hang_at_the_beginning_comes_before_the_first_byte(api: str) -> None:
    body = msgspec.json.encode(request(api)).replace(b"[[think:Hm.]]", b"[[hang:2]]")
    assert answer_request("POST", PATHS[api], "alt=sse", body, auxiliary_reply=None).wait_s == 2.0


def test_usage_ends_a_chat_stream_only_where_it_was_asked_for() -> None:
    plain = list(data(request_answer("chat")))
    body = request("chat") | {"stream_options": {"include_usage": True}}
    asking = list(data(answer_request("POST", PATHS["chat"], "", msgspec.json.encode(body), auxiliary_reply=None)))
    assert all("usage" not in chunk for chunk in plain)
    assert asking[-1]["usage"]["total_tokens"] == 16


def test_each_block_of_an_anthropic_stream_is_closed_and_thoughts_are_signed() -> None:
    events = list(data(request_answer("anthropic")))
    starts = [event["index"] for event in events if event["type"] == "content_block_start"]
    stops = [event["index"] for event in events if event["type"] == "content_block_stop"]
    signed = [event["index"] for event in events if event.get("delta", {}).get("type") == "signature_delta"]
    assert starts == stops == [0, 1, 2, 3]
    assert signed == [0]


def test_custom_tools_of_the_responses_api_get_text_and_grouped_ones_name_their_group() -> None:
    body = {
        "model": "m",
        "input": '[[tool:patch {"input": "*** Begin"} + look {}]]',
        "tools": [
            {"type": "custom", "name": "patch"},
            {"type": "namespace", "name": "mcp__files", "tools": [{"type": "function", "name": "look"}]},
        ],
    }
    found = answer_request("POST", PATHS["responses"], "", msgspec.json.encode(body), auxiliary_reply=None)
    patch, look = msgspec.json.decode(found.body)["output"]
    assert (patch["type"], patch["input"]) == ("custom_tool_call", "*** Begin")
    assert (look["type"], look["namespace"]) == ("function_call", "mcp__files")


def test_gemini_without_events_streams_one_array() -> None:
    found = answer_request("POST", PATHS["gemini"], "", msgspec.json.encode(request("gemini")), auxiliary_reply=None)
    assert len(msgspec.json.decode(found.body)) == 1


@pytest.mark.parametrize("path", ["/v1/models", "/v1beta/models", "/v1/models/x", "/"])
def test_lists_of_models_are_there(path: str) -> None:
    found = answer_request("GET", path, "", b"", auxiliary_reply=None)
    assert found.status == 200
    assert msgspec.json.decode(found.body)


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/messages/count_tokens", "input_tokens"), ("/v1beta/models/m:countTokens", "totalTokens")]
)
def test_tokens_are_counted_by_estimate(path: str, field: str) -> None:
    assert msgspec.json.decode(answer_request("POST", path, "", b"x" * 40, auxiliary_reply=None).body) == {field: 11}


def test_an_unknown_path_says_which_there_are() -> None:
    found = answer_request("POST", "/v2/other", "", b"{}", auxiliary_reply=None)
    assert found.status == 404
    assert "/v1/messages" in msgspec.json.decode(found.body)["error"]["message"]


def test_tools_that_are_offered_inside_of_the_conversation_are_tools_too() -> None:
    offered = {"type": "additional_tools", "role": "developer", "tools": [{"type": "custom", "name": "exec"}]}
    body = {"model": "m", "input": [offered, {"role": "user", "content": "[[tools]]"}]}
    found = answer_request(
        "POST", PATHS["responses"], "", msgspec.json.encode(body), auxiliary_reply="An auxiliary_reply."
    )
    assert found.note == "m, 1 tool: says 'exec'"
