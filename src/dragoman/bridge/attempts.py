"""`Attempts`: how often an address has come with a wrong token or code lately.

Who comes with the right one is let in however often others failed from the same address: on loopback every program and
every page of the machine has the same one, and any of them could lock the person out.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

# A person with a wrong token in a script tries a few times; who guesses would need 2^255 tries.
MOST: Final = 10
WINDOW: Final = 60.0

# Addresses that are remembered; the one that failed longest ago is forgotten first.
ADDRESSES: Final = 4096


class Attempts:
    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failed: OrderedDict[str, tuple[int, float]] = OrderedDict()  # how often, and since when

    def fail(self, address: str) -> float | None:
        """Counts one more. Seconds to wait where it is one too many, else None."""
        now = self._clock()
        count, since = self._failed.pop(address, (0, now))
        if now - since >= WINDOW:
            count, since = 0, now
        self._failed[address] = (count + 1, since)
        while len(self._failed) > ADDRESSES:
            self._failed.popitem(last=False)
        return since + WINDOW - now if count >= MOST else None
