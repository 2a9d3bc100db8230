"""Secrets and long responses that we send are redacted. Everything else, and all that agents send, stays."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from dragoman.journal import maintenance
from dragoman.journal.recorder import MAX_ANSWER_BYTES, redact
from dragoman.journal.sqlite import SqliteJournal
from dragoman.proc.environment import secret_variables
from dragoman.record.routing import ConnectionReader
from dragoman.wire.messages import Message
from journal.talk import Talk, all_entries

PLANTED = {"ENV": "planted-in-env", "HEADER": "planted-in-header", "KEY": 'planted "in" a key\\'}
SERVERS = [
    {"name": "a", "command": "x", "args": [], "env": [{"name": "TOKEN", "value": PLANTED["ENV"]}]},
    {"type": "http", "name": "b", "url": "http://b", "headers": [{"name": "Auth", "value": PLANTED["HEADER"]}]},
]


def sent(frame: dict[str, Any]) -> Message:
    [heard] = ConnectionReader().read("out", msgspec.json.encode({"jsonrpc": "2.0", **frame}))
    return heard.message


@pytest.mark.parametrize(
    "frame",
    [
        {"id": 1, "method": "session/prompt", "params": {"sessionId": "a", "prompt": []}},
        {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": []}},
        {"id": 1, "method": "session/new", "params": {"mcpServers": [{"env": None, "headers": 7}, 3]}},
        {"id": 1, "method": "session/new", "params": {"mcpServers": {"env": []}}},
        {
            "id": 1,
            "method": "session/new",
            "params": {"mcpServers": [{"args": ["-y", "@scope/server", "1"]}]},
        },
        {"id": 1, "method": "session/new", "params": {"mcpServers": [{"url": "http://127.0.0.1:1/mcp", "args": [1]}]}},
        {
            "id": 1,
            "method": "session/new",
            "params": {
                "mcpServers": [
                    {
                        "url": "https://mcp.some-company.example.com:8443/v1/projects/my-project-2025/mcp",
                        "args": ["-p", "8080", "--path", "/home/me/server-filesystem-2025", "server-everything", "-v"],
                    }
                ]
            },
        },
        {"method": "session/cancel", "params": {"sessionId": "a"}},
    ],
)
def test_a_message_without_a_secret_is_stored_unchanged(frame: dict[str, Any]) -> None:
    assert redact(sent(frame), PLANTED) is None


@pytest.mark.attempts("secrets")
def test_a_secret_is_replaced_by_its_name() -> None:
    line = redact(sent({"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": SERVERS}}), {})
    assert line is not None
    servers = msgspec.json.decode(line)["params"]["mcpServers"]
    assert servers[0]["env"] == [{"name": "TOKEN", "value": "[secret:TOKEN]"}]
    assert servers[1]["headers"] == [{"name": "Auth", "value": "[secret:Auth]"}]
    prompt = {"sessionId": "a", "prompt": [{"type": "text", "text": f"use {PLANTED['KEY']}!"}]}
    line = redact(sent({"id": 2, "method": "session/prompt", "params": prompt}), PLANTED)
    assert line is not None
    assert msgspec.json.decode(line)["params"]["prompt"][0]["text"] == "use [secret:KEY]!"


@pytest.mark.attempts("secrets")
@pytest.mark.parametrize(
    ("server", "kept_as"),
    [
        ({"url": "https://me:{}@h/mcp"}, {"url": "https://[secret:url]@h/mcp"}),
        ({"url": "http://h/mcp?a=1&token={}"}, {"url": "http://h/mcp?[secret:url]"}),
        ({"url": "http://h/mcp#{}"}, {"url": "http://h/mcp#[secret:url]"}),
        ({"args": ["--api-key", "{}", "--port", "1"]}, {"args": ["--api-key", "[secret:--api-key]", "--port", "1"]}),
        ({"args": ["--token={}", "x"]}, {"args": ["--token=[secret:--token]", "x"]}),
        ({"args": ["--header", "Authorization: Bearer {}"]}, {"args": ["--header", "[secret:args]"]}),
        ({"args": ["postgres://me:{}@h/db"]}, {"args": ["[secret:args]"]}),
        ({"args": ["--pat", "{}"]}, {"args": ["--pat", "[secret:--pat]"]}),
        ({"args": ["--db-pwd={}"]}, {"args": ["--db-pwd=[secret:--db-pwd]"]}),
        ({"args": ["-p", "{}", "x"]}, {"args": ["-p", "[secret:-p]", "x"]}),
        ({"args": ["--key", "-{}", "x"]}, {"args": ["--key", "[secret:--key]", "x"]}),
        ({"args": ["-H", "Cookie: a={}"]}, {"args": ["-H", "[secret:args]"]}),
        ({"args": ["-H", "X-Mine: {}"]}, {"args": ["-H", "[secret:args]"]}),
        ({"args": ["ghp_{}"]}, {"args": ["[secret:args]"]}),
        ({"args": ["--use", "sk-{}"]}, {"args": ["--use", "[secret:args]"]}),
        ({"args": ["https://h/s/sk-{}/mcp"]}, {"args": ["https://h/s/[secret:url]/mcp"]}),
        ({"url": "https://h/s/a1B2c3D4e5F6g7H8{}/mcp"}, {"url": "https://h/s/[secret:url]/mcp"}),
        ({"url": "https://a1b2c3d4e5f6a7b8{}.h.io/mcp"}, {"url": "https://[secret:url].h.io/mcp"}),
        ({"url": "https://h/mcp;id={}"}, {"url": "https://h/mcp;[secret:url]"}),
        ({"env": {"TOKEN": "{}"}}, {"env": {"TOKEN": "[secret:TOKEN]"}}),
        ({"headers": {"Cookie": "{}"}}, {"headers": {"Cookie": "[secret:Cookie]"}}),
        ({"_meta": {"k": "{}"}}, {"_meta": {"_dragoman": "[secret:_meta]"}}),
    ],
)
def test_a_secret_in_the_url_arguments_or_meta_of_a_server_is_not_stored(
    server: dict[str, Any], kept_as: dict[str, Any]
) -> None:
    planted = msgspec.json.decode(msgspec.json.encode(server).replace(b"{}", b"hunter2"))
    line = redact(sent({"id": 1, "method": "session/new", "params": {"mcpServers": [{"name": "n", **planted}]}}), {})
    assert line is not None
    assert msgspec.json.decode(line)["params"]["mcpServers"] == [{"name": "n", **kept_as}]


@pytest.mark.attempts("secrets")
def test_a_variable_is_secret_by_its_name_or_by_its_value() -> None:
    secrets = {"API_KEY": "hunter22", "MY_TOKEN": "x", "OTHER": "sk-Zm9vYmFy0123456789ab"}
    plain = {
        "GOOGLE_CLOUD_PROJECT": "my-app",
        "GIT_AUTHOR_NAME": "somebody",
        "LOG_LEVEL": "verbose",
        "ANTHROPIC_MODEL": "claude-sonnet-4-5-20250929",
        "WORK": "/home/Me/Projects/app2",
        "BASE_URL": "http://127.0.0.1:8080/Aa1",
        "REMOVED_KEY": None,
        "EMPTY_KEY": "",
    }
    assert secret_variables({**secrets, **plain}) == secrets


def test_a_short_value_is_not_looked_for() -> None:
    prompt = {"sessionId": "a", "prompt": [{"type": "text", "text": "the cat"}]}
    assert redact(sent({"id": 2, "method": "session/prompt", "params": prompt}), {"PIN": "cat", "NONE": ""}) is None


def found_in(folder: Path) -> list[str]:
    files = b"".join(file.read_bytes() for file in folder.iterdir())
    assert b"[secret:TOKEN]" in files
    return [
        secret for secret in PLANTED.values() if secret.encode() in files or msgspec.json.encode(secret)[1:-1] in files
    ]


@pytest.mark.attempts("secrets")
async def test_planted_secrets_are_found_nowhere_in_the_files(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        talk = await Talk.begin(journal, secrets=PLANTED)
        talk.frame("out", {"id": 1, "method": "session/new", "params": {"cwd": "/", "mcpServers": SERVERS}}, "client")
        talk.prompt(f"my key is {PLANTED['KEY']}")
        talk.say("I keep it to myself")
        await talk.commit()
        assert await maintenance.verify(journal) == []
        assert found_in(tmp_path) == []


async def test_a_long_answer_is_stored_as_length_and_digest(tmp_path: Path) -> None:
    async with await SqliteJournal.open(tmp_path / "journal.db") as journal:
        talk = await Talk.begin(journal)
        talk.prompt("read it")
        for number, size in ((7, 100), (8, MAX_ANSWER_BYTES)):
            ask = {"id": number, "method": "fs/read_text_file", "params": {"sessionId": "a", "path": "/x"}}
            talk.frame("in", ask, "agent")
            talk.frame("out", {"id": number, "result": {"content": "y" * size}}, "client")
        await talk.commit()
        short, long = (one for one in await all_entries(journal) if one.origin == "client" and "fs/" in one.kind)
        assert msgspec.json.decode(short.frame)["result"]["content"] == "y" * 100
        result = msgspec.json.encode({"content": "y" * MAX_ANSWER_BYTES})
        assert msgspec.json.decode(long.frame)["result"]["_dragoman"] == {
            "length": len(result),
            "sha256": hashlib.sha256(result).hexdigest(),
        }
        assert [one.status for one in (await journal.rows("s1")).file_calls] == ["done", "done"]
        assert await maintenance.verify(journal) == []
