"""Tokens and pairing codes, in their file."""

from __future__ import annotations

import stat
import threading
from pathlib import Path

import pytest

from dragoman.bridge.tokens import (
    BROWSER_TOKEN_LIFE_S,
    CODE_LIFE_S,
    FILE_NAME,
    MAX_CODES,
    MAX_TOKENS,
    USE_UPDATE_S,
    TokenFile,
    Tokens,
)
from dragoman.errors import ConfigError, InputError
from dragoman.fileio import LockedJsonFile


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def tokens(tmp_path: Path, clock: Clock) -> Tokens:
    return Tokens(tmp_path / "home", clock)


def test_a_token_is_found_by_itself_alone(tokens: Tokens) -> None:
    secret, made = tokens.create("nightly", "view")
    assert tokens.find(secret) == made
    assert tokens.find(secret[:-1]) is None
    assert tokens.find(made.digest) is None
    assert tokens.find("") is None
    assert tokens.find("\udc80") is None


def test_a_token_has_256_random_bits(tokens: Tokens) -> None:
    secrets = {tokens.create("one", "view")[0] for _ in range(20)}
    assert len(secrets) == 20
    assert all(secret.startswith("dgm_") and len(secret) == 4 + 43 for secret in secrets)


def test_the_file_is_the_users_alone_and_holds_no_secret(tokens: Tokens, tmp_path: Path) -> None:
    secret, _ = tokens.create("nightly", "admin")
    code = tokens.new_code()
    path = tmp_path / "home" / FILE_NAME
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    stored = path.read_text()
    assert secret not in stored
    assert secret.removeprefix("dgm_") not in stored
    assert code not in stored


@pytest.mark.attempts("shared home")
def test_a_token_that_another_process_revokes_is_invalid_at_once(tokens: Tokens, tmp_path: Path) -> None:
    secret, made = tokens.create("nightly", "admin")
    assert tokens.has(made.id, made.digest, made.scope)
    assert Tokens(tmp_path / "home").revoke(made.id)
    assert tokens.find(secret) is None
    assert not tokens.has(made.id, made.digest, made.scope)
    assert not tokens.revoke(made.id)


def test_a_token_that_is_made_again_under_the_same_id_replaces_the_first(tokens: Tokens) -> None:
    _, first = tokens.create("nightly", "admin", token_id="same")
    _, second = tokens.create("nightly", "view", token_id="same")
    assert not tokens.has(first.id, first.digest, first.scope)
    assert tokens.has(second.id, second.digest, second.scope)


@pytest.mark.attempts("shared home")
def test_a_slow_reader_in_another_thread_does_not_bring_a_revoked_token_back(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, token = tokens.create("nightly", "admin")
    has_read, may_return = threading.Event(), threading.Event()
    read = LockedJsonFile.read

    def slow_read(file: LockedJsonFile[TokenFile]) -> TokenFile:
        content = read(file)
        if threading.current_thread() is not threading.main_thread():
            has_read.set()
            may_return.wait()
        return content

    monkeypatch.setattr(LockedJsonFile, "read", slow_read)
    reader = threading.Thread(target=tokens.all)
    reader.start()
    has_read.wait()
    assert tokens.revoke(token.id)
    assert not tokens.has(token.id, token.digest, token.scope)
    may_return.set()
    reader.join()
    assert not tokens.has(token.id, token.digest, token.scope)


def test_a_code_is_valid_once(tokens: Tokens) -> None:
    code = tokens.new_code("prompt")
    made = tokens.exchange(code, "Firefox on Linux")
    assert made is not None
    secret, token = made
    assert token.scope == "prompt"
    assert token.browser
    assert tokens.find(secret) == token
    assert tokens.exchange(code, "Firefox on Linux") is None
    assert tokens.all() == (token,)


def test_a_code_is_valid_for_minutes(tokens: Tokens, clock: Clock) -> None:
    code = tokens.new_code()
    clock.now += CODE_LIFE_S
    assert tokens.exchange(code, "late") is None


def test_a_code_of_another_process_is_taken(tokens: Tokens, tmp_path: Path, clock: Clock) -> None:
    assert tokens.exchange(Tokens(tmp_path / "home", clock).new_code(), "phone") is not None


def test_old_codes_make_room_for_new_ones(tokens: Tokens) -> None:
    codes = [tokens.new_code() for _ in range(MAX_CODES + 1)]
    assert tokens.exchange(codes[0], "first") is None
    assert tokens.exchange(codes[-1], "last") is not None


def test_a_browser_that_never_came_back_is_forgotten_and_a_program_is_not(tokens: Tokens, clock: Clock) -> None:
    program, _ = tokens.create("nightly", "view")
    made = tokens.exchange(tokens.new_code(), "phone")
    assert made is not None
    clock.now += BROWSER_TOKEN_LIFE_S + 1
    assert tokens.find(made[0]) is None
    assert tokens.find(program) is not None
    tokens.new_code()
    assert [token.name for token in tokens.all()] == ["nightly"]


def test_use_is_written_down_now_and_then(tokens: Tokens, clock: Clock) -> None:
    secret, made = tokens.create("nightly", "view")
    assert tokens.use_is_due(made)
    tokens.write_use(made.id)
    used = tokens.find(secret)
    assert used is not None
    assert used.used == clock.now
    assert not tokens.use_is_due(used)
    clock.now += USE_UPDATE_S
    assert tokens.use_is_due(used)


@pytest.mark.parametrize("name", ["", "  ", "a\x1b[31mb", "x" * 81])
def test_a_name_that_cannot_be_shown_is_refused(tokens: Tokens, name: str) -> None:
    with pytest.raises(InputError):
        tokens.create(name, "view")


def test_there_is_an_end_to_how_many_there_are(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman.bridge.tokens.MAX_TOKENS", 2)
    assert MAX_TOKENS > 2
    tokens.create("one", "view")
    tokens.create("two", "view")
    with pytest.raises(InputError, match="2 tokens"):
        tokens.create("three", "view")


def test_a_broken_file_makes_every_token_invalid(tokens: Tokens, tmp_path: Path) -> None:
    secret, _ = tokens.create("nightly", "admin")
    (tmp_path / "home" / FILE_NAME).write_text("{")
    with pytest.raises(ConfigError):
        tokens.find(secret)
