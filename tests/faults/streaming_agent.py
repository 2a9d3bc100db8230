"""An agent of many sessions that streams without end, and keeps a copy of every line it wrote, made before it wrote it.

Run as `python streaming_agent.py COPY`. Standard library alone: what it wrote is not to depend on what is tested.
"""

from __future__ import annotations

import json
import os
import sys

CHUNKS = 100_000


def main() -> None:
    copy = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def send(message: object) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"  # type: ignore[dict-item]
        os.write(copy, line)
        sys.stdout.buffer.write(line)
        sys.stdout.buffer.flush()

    sessions: list[str] = []
    prompted: list[str] = []
    session_limit = 0
    for text in sys.stdin:
        request = json.loads(text)
        match request.get("method"):
            case "initialize":
                send({"id": request["id"], "result": {"protocolVersion": 1, "agentCapabilities": {}}})
            case "session/new":
                sessions.append(f"s{len(sessions)}")
                session_limit = max(session_limit, int(os.environ.get("SESSIONS", "1")))
                send({"id": request["id"], "result": {"sessionId": sessions[-1]}})
            case "session/prompt":
                prompted.append(request["params"]["sessionId"])
                if len(prompted) == session_limit:
                    for number in range(CHUNKS):
                        for session in prompted:
                            content = {"type": "text", "text": f"{session} {number} "}
                            update = {"sessionUpdate": "agent_message_chunk", "content": content}
                            send({"method": "session/update", "params": {"sessionId": session, "update": update}})
            case _:
                pass


if __name__ == "__main__":
    main()
