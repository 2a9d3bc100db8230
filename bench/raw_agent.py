"""An agent in the plainest Python: the same program at the other end of every client in the bench.

It speaks just enough ACP to be opened and prompted. A prompt's text says what to stream back:
`50000` is that many message chunks, `1000000 1000` the same with a finished tool call after every
thousandth. The chunks are numbered, so that a client can tell a lost or a late one.

`--prepare 50000` encodes the answer to that prompt before `session/new` is answered, so that what is
then measured is the client and the pipe, and not this program's string formatting.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator

STDIN, STDOUT = 0, 1

# Large enough that the writer is never the slow side, small enough that a million chunks need no memory here.
CHUNKS_A_WRITE = 2_000

SESSION_ID = "3c7e1f52-9d0b-4a86-b6f4-%012d"  # as long as the ids that agents give

HEAD = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":'
    '{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"word '
)
TAIL = ' "}}}}\n'

TOOL_CALL = (
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"tool_call",'
    '"toolCallId":"call-%d","title":"Read notes.txt","kind":"read","status":"in_progress",'
    '"rawInput":{"path":"notes.txt"}}}}\n'
    '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"%s","update":{"sessionUpdate":"tool_call_update",'
    '"toolCallId":"call-%d","status":"completed",'
    '"content":[{"type":"content","content":{"type":"text","text":"forty-two lines"}}]}}}\n'
)


def write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(STDOUT, view) :]


def batch(session_id: str, first: int, last: int) -> bytes:
    """Encode the lines of the chunks first..last-1; the numbers have eight digits."""
    head = HEAD % session_id
    return (head + (TAIL + head).join([f"{n:08d}" for n in range(first, last)]) + TAIL).encode()


def stream(session_id: str, count: int, tool_every: int) -> Iterator[bytes]:
    """Yield all lines that answer a prompt, as large blocks."""
    step = min(tool_every or CHUNKS_A_WRITE, CHUNKS_A_WRITE)
    for first in range(0, count, step):
        last = min(first + step, count)
        block = batch(session_id, first, last)
        if tool_every and last % tool_every == 0:
            call = last // tool_every
            block += (TOOL_CALL % (session_id, call, session_id, call)).encode()
        yield block


def answer(request_id: object, result: object) -> None:
    write(json.dumps({"jsonrpc": "2.0", "id": request_id, "result": result}).encode() + b"\n")


def main() -> None:
    prepare = int(sys.argv[2]) if sys.argv[1:2] == ["--prepare"] else 0
    prepared: dict[str, bytes] = {}
    sessions = 0
    for line in sys.stdin.buffer:
        message = json.loads(line)
        request_id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        if request_id is None:
            continue
        if method == "initialize":
            answer(request_id, {"protocolVersion": 1, "agentCapabilities": {}, "authMethods": []})
        elif method == "session/new":
            sessions += 1
            session_id = SESSION_ID % sessions
            if prepare:
                prepared[session_id] = b"".join(stream(session_id, prepare, 0))
            answer(request_id, {"sessionId": session_id})
        elif method == "session/prompt":
            session_id = params["sessionId"]
            wanted = [int(word) for word in params["prompt"][0]["text"].split()]
            count, tool_every = wanted[0], wanted[1] if len(wanted) > 1 else 0
            if count == prepare and not tool_every:
                write(prepared[session_id])
            else:
                for block in stream(session_id, count, tool_every):
                    write(block)
            answer(request_id, {"stopReason": "end_turn"})
        else:
            error = {"code": -32601, "message": "this agent does not know " + str(method)}
            write(json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error}).encode() + b"\n")


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        # The client has gone. Leave without the interpreter's own attempt to flush into the closed pipe.
        os._exit(0)
