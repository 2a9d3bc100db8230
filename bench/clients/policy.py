"""Seconds for a thousand policy decisions: `policy WHAT RULES`, where WHAT is `read`, `edit`, `command` or `decode`."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from dragoman.host.policy.policy import build_policy
from dragoman.host.policy.rules import PolicyRule
from dragoman.host.requests import Requests
from dragoman.workspace import Workspace

# Enough that the clock's own cost is nothing, few enough that a round takes a second or two.
ROUNDS = 1_000

CALLS: dict[str, dict[str, object]] = {
    "read": {"kind": "read", "title": "Read main.py", "locations": [{"path": "{cwd}/src/main.py"}]},
    "edit": {"kind": "edit", "title": "Edit main.py", "locations": [{"path": "{cwd}/src/main.py"}]},
    "command": {
        "kind": "execute",
        "title": "Run the tests",
        "rawInput": {"command": "npm run build && npm test 2>&1 | tail -20 > out.txt", "description": "Run the tests"},
    },
}


def main(what: str, count: int) -> None:
    with tempfile.TemporaryDirectory(prefix="dragoman-bench-") as folder:
        workspace = Workspace(folder)
        call = CALLS.get(what, CALLS["edit"])
        text = json.dumps({"sessionId": "s", "toolCall": {"toolCallId": "t", **call}, "options": []})
        text = text.replace("{cwd}", str(workspace.cwd))
        if what == "decode":
            seconds = _time(lambda: json.loads(text))
        else:
            request = Requests("s", "demo", workspace).of_tool_call(msgspec.Raw(text.encode()), None)
            policy = build_policy("edit-inside", user=_rules(count), home=Path(folder, "home"))
            seconds = _time(lambda: policy.judge(request, workspace))
    print(json.dumps({"seconds": seconds}))


def _rules(count: int) -> list[PolicyRule]:
    """Return a usual mix of rules, none of which matches the request, so that all must be looked at."""
    kinds = (
        lambda number: PolicyRule("deny", path=f"**/secret{number}/**"),
        lambda number: PolicyRule("allow", command=f"tool{number} *"),
        lambda number: PolicyRule("allow", path=f"docs{number}/**", kind="write"),
        lambda number: PolicyRule("deny", mcp=f"server{number}/*"),
        lambda number: PolicyRule("ask", command=[f"git verb{number} *", f"npm verb{number}"]),
    )
    return [kinds[number % len(kinds)](number) for number in range(count)]


def _time(act: Callable[[], object]) -> float:
    for _ in range(ROUNDS // 10):
        act()
    started = time.perf_counter()
    for _ in range(ROUNDS):
        act()
    return time.perf_counter() - started


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
