"""`terminal.*`: typing into a command that runs for an agent, its size, and its end."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.refusal import Refusal

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def type_in(bridge: Bridge, said: asked.TerminalInput, caller: Caller) -> answers.Done:
    terminal, _ = bridge.terminal(f"{said.session_id}/{said.terminal_id}")
    try:
        data = base64.b64decode(said.data, validate=True)
    except (binascii.Error, ValueError):
        raise Refusal("invalid", "data is no base64", field="data") from None
    if not terminal.has_pty:
        raise Refusal("unsupported", "this command has no terminal that could be typed on")
    await terminal.write(data)
    return answers.Done()


async def resize(bridge: Bridge, said: asked.TerminalResize, caller: Caller) -> answers.Done:
    terminal, _ = bridge.terminal(f"{said.session_id}/{said.terminal_id}")
    if not (1 <= said.columns <= 1000 and 1 <= said.rows <= 1000):
        raise Refusal("invalid", "a terminal has 1 to 1000 columns and rows", field="columns")
    terminal.resize(said.columns, said.rows)
    return answers.Done()


async def kill(bridge: Bridge, said: asked.TerminalKill, caller: Caller) -> answers.Done:
    terminal, _ = bridge.terminal(f"{said.session_id}/{said.terminal_id}")
    await terminal.end()
    return answers.Done()
