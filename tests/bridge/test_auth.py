"""Wrong tokens, counted by address."""

from __future__ import annotations

from dragoman.bridge.auth import ATTEMPT_WINDOW_S, MAX_ADDRESSES, MAX_ATTEMPTS, FailedAttempts


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_too_many_has_to_wait_until_the_first_is_forgotten() -> None:
    clock = Clock()
    attempts = FailedAttempts(clock)
    assert [attempts.add("192.0.2.1") for _ in range(MAX_ATTEMPTS)] == [None] * MAX_ATTEMPTS
    clock.now = 20
    assert attempts.add("192.0.2.1") == ATTEMPT_WINDOW_S - 20
    assert attempts.add("192.0.2.2") is None
    clock.now = ATTEMPT_WINDOW_S
    assert attempts.add("192.0.2.1") is None


def test_only_so_many_addresses_are_remembered() -> None:
    attempts = FailedAttempts(Clock())
    for number in range(MAX_ADDRESSES * 2):
        attempts.add(str(number))
    assert len(attempts._counts) == MAX_ADDRESSES
