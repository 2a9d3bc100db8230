"""`dragoman sessions resume`: a stored session goes on, by a run or a chat."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dragoman.cli.job import Given
from dragoman.cli.stored import failed, reading
from dragoman.errors import DragomanError
from dragoman.journal.find import find


def run_resume(*, session: str, prompt: Sequence[str], access: str | None, env: Sequence[str]) -> int:
    try:
        session_id = asyncio.run(_found(session))
    except DragomanError as error:
        return failed(error)
    given = Given(resume=session_id, prompt=tuple(prompt), access=access, env=tuple(env))
    if prompt:
        from dragoman.cli.drive import run
    else:
        from dragoman.cli.chat.drive import run
    return run(given)


async def _found(wanted: str) -> str:
    async with reading() as journal:
        return find(await journal.sessions(), wanted).id
