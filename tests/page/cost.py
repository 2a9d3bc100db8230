"""Measures the page: its size, the time to open a long conversation, how smooth it stays while one streams, and its
memory after an hour of that.

`make bench-page` prints it. The tests hold what does not depend on the machine: the size, and how much is in the page.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
from playwright.sync_api import Browser, expect, sync_playwright

from page import busy
from page.person import Person
from page.server import Server

CHUNKS = 100_000
MINUTES = 60
COLLECTIONS = 3

# Counts frames of the screen and tasks that were longer than 50 ms, from now on.
WATCH = """() => {
  const seen = { frames: 0, long: [], from: performance.now() };
  window.seen = seen;
  const frame = () => { seen.frames++; requestAnimationFrame(frame); };
  requestAnimationFrame(frame);
  new PerformanceObserver((list) => { for (const task of list.getEntries()) seen.long.push(task.duration); })
    .observe({ type: "longtask" });
}"""
CONTAINS_TEXT = "words => document.querySelector('[role=log]').textContent.includes(words)"
LOADED = """() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
  .reduce((sum, one) => sum + one.transferSize, 0)"""


class Streamed(msgspec.Struct, frozen=True):
    """While it streamed: seconds, frames a second, tasks over 50 ms and the longest (ms); nodes and heap at the end."""

    seconds: float
    frames_per_second: float
    long_tasks: int
    longest: float
    nodes: int
    heap: int


class MemorySample(msgspec.Struct, frozen=True):
    """Heap and nodes of the page after so many minutes of an agent's work, and the seconds that these took here."""

    minute: int
    seconds: float
    heap: int
    nodes: int


def first_load(person: Person) -> int:
    """Bytes over the wire until the page can be used, by a browser that was never here."""
    person.context.new_cdp_session(person.page).send("Network.clearBrowserCache")
    person.go("/")
    expect(person.page.get_by_role("heading", level=1).first).to_be_visible()
    size: int = person.page.evaluate(LOADED)
    return size


def stream(person: Person, request: str, within: float = 240_000) -> Streamed:
    """The rest of the page must stay usable meanwhile: it is one tab, with one thread."""
    person.page.evaluate(WATCH)
    person.say(request)
    expect(person.conversation.locator(".end").last).to_be_visible(timeout=within)
    seen: dict[str, Any] = person.page.evaluate("({ ...window.seen, to: performance.now() })")
    seconds = (seen["to"] - seen["from"]) / 1000
    return Streamed(
        seconds=seconds,
        frames_per_second=seen["frames"] / seconds,
        long_tasks=len(seen["long"]),
        longest=max(seen["long"], default=0),
        nodes=nodes(person),
        heap=heap(person),
    )


def hour(person: Person, minutes: int = MINUTES) -> list[MemorySample]:
    """An agent that works for an hour, played at speed, with someone who follows it; looked at ten times."""
    person.add_agent("busy", sys.executable, busy.__file__)
    person.start_session(agent="busy")
    started = time.monotonic()
    samples = []
    for minute in range(1, minutes + 1):
        person.say("Work on.")
        person.page.wait_for_function(CONTAINS_TEXT, arg=busy.over(minute))
        if minute % (minutes // 10) == 0:
            samples.append(MemorySample(minute, time.monotonic() - started, heap(person), nodes(person)))
    return samples


def nodes(person: Person) -> int:
    count: int = person.page.evaluate("document.getElementsByTagName('*').length")
    return count


def heap(person: Person) -> int:
    """Bytes of the heap that are still reachable: the least of several forced collections.

    One collection is not enough: finalizers and weak maps free more with the next one.
    """
    session = person.context.new_cdp_session(person.page)
    used: list[int] = []
    for _ in range(COLLECTIONS):
        session.send("HeapProfiler.collectGarbage")
        used.append(session.send("Runtime.getHeapUsage")["usedSize"])
    session.detach()
    return min(used)


def opened(person: Person, path: str) -> float:
    """Seconds from the address to the end of the conversation."""
    started = person.page.evaluate("performance.timeOrigin + performance.now()")
    person.go(path)
    expect(person.conversation.locator(".end").last).to_be_visible(timeout=60_000)
    ended = person.page.evaluate("performance.timeOrigin + performance.now()")
    return float(ended - started) / 1000


def _measure(browser: Browser, folder: Path) -> None:
    server = Server(folder)
    server.start()
    try:
        person = Person.at(browser, server, width=1360, height=850)
        print(f"first load                {first_load(person) / 1024:.0f} KB over the wire")
        for request in ("stream 2000", f"stream {CHUNKS}"):
            session = person.start_session()
            before = heap(person)
            cost = stream(person, request)
            print(
                f"{request:25} {cost.seconds:.1f} s, {cost.frames_per_second:.0f} frames a second, "
                f"{cost.long_tasks} tasks over 50 ms (the longest {cost.longest:.0f} ms), "
                f"{cost.nodes} nodes, heap {before / 1e6:.0f} to {cost.heap / 1e6:.0f} MB"
            )
            print(f"  opened again            {opened(person, f'/s/{session}'):.2f} s, {nodes(person)} nodes")
        print(f"{MINUTES} minutes of work, {MINUTES * len(list(busy.minute(1)))} updates")
        for sample in hour(person):
            figures = f"{sample.seconds:.1f} s, heap {sample.heap / 1e6:.1f} MB, {sample.nodes} nodes"
            print(f"  after minute {sample.minute:<12} {figures}")
        person.leave()
    finally:
        server.stop()


def main() -> None:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        _measure(browser, Path(folder))
        browser.close()


if __name__ == "__main__":
    main()
