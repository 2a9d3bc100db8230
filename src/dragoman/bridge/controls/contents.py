"""`session.contents` and `session.diffs`: what a session changed and ran, without all of its rows."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dragoman.bridge import answers, asked
from dragoman.bridge.caller import Caller
from dragoman.bridge.contents import contents_of, diffs_of
from dragoman.bridge.controls.sessions import row_of_session

if TYPE_CHECKING:
    from dragoman.bridge.bridge import Bridge


async def contents(bridge: Bridge, said: asked.SessionContents, caller: Caller) -> answers.Contents:
    await row_of_session(bridge, said.session_id)
    found = await bridge.hub.journal.rows(said.session_id)
    # A session may have thousands of diffs, and to count their lines takes seconds then.
    return await asyncio.to_thread(contents_of, found, said.before, said.run_id)


async def diffs(bridge: Bridge, said: asked.SessionDiffs, caller: Caller) -> answers.FileDiffs:
    await row_of_session(bridge, said.session_id)
    found = await bridge.hub.journal.rows(said.session_id)
    return await asyncio.to_thread(diffs_of, found, said.path, said.before, said.run_id)
