"""Wrong tokens, counted by address."""

from __future__ import annotations

from dragoman.bridge.attempts import ADDRESSES, MOST, WINDOW, Attempts


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_one_too_many_has_to_wait_until_the_first_is_forgotten() -> None:
    clock = Clock()
    attempts = Attempts(clock)
    assert [attempts.fail("192.0.2.1") for _ in range(MOST)] == [None] * MOST
    clock.now = 20
    assert attempts.fail("192.0.2.1") == WINDOW - 20
    assert attempts.fail("192.0.2.2") is None
    clock.now = WINDOW
    assert attempts.fail("192.0.2.1") is None


def test_only_so_many_addresses_are_remembered() -> None:
    attempts = Attempts(Clock())
    for number in range(ADDRESSES * 2):
        attempts.fail(str(number))
    assert len(attempts._failed) == ADDRESSES
