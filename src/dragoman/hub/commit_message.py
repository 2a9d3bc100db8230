"""`propose_message`: the agent of a session writes a commit message, in a session of its own.

The conversation stays as it is: another process of the same agent gets the difference as text, in an empty folder that
is removed, and its session is in no journal. It is offered no files and no terminals, and all permissions are denied.
If the session is in a sandbox, so is this one.
"""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Final, Literal

import msgspec

from dragoman.config import Config, load
from dragoman.errors import GitActionError
from dragoman.host.policy.rules import PolicyRule
from dragoman.hub.scopes import reading_reason
from dragoman.session.client import LocalClient
from dragoman.session.handle import SessionHandle
from dragoman.session.options import SessionConfig
from dragoman.session.spec import AgentSpec
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.commit_diff import ChangesText

# Seconds for the answer; the agent's start has its own limit.
PROPOSAL_TIMEOUT_S: Final = 120.0

# Characters of a proposed message.
MAX_PROPOSAL_LENGTH: Final = 10_000

_FENCED: Final = re.compile(r"```[\w-]*\n(.*?)\n?```", re.DOTALL)

# Above the rules of the user, which are meant for other work.
_RULES: Final = (PolicyRule("deny", reason="a commit message is written without tools"),)

_PROMPT: Final = """\
Write the message of a git commit for the changes below.

Answer with the message alone: a subject of at most 72 characters in the imperative, then, if there is more to say, an \
empty line and a short text that says why. No quotes, no code fence, no remarks. All you need is below: use no tools.
"""


async def propose_message(config: Config | None, handle: SessionHandle, changes: ChangesText) -> str:
    """Return the message that the agent of a session proposes. Raises what the agent fails with."""
    client = LocalClient(config=config)
    spec = client.spec_of_handle(handle)
    return await ask_for_message(client, spec, changes, sandbox=handle.sandbox, network=handle.network)


async def ask_for_message(
    client: LocalClient,
    spec: AgentSpec,
    changes: ChangesText,
    *,
    sandbox: bool | str | None = None,
    network: bool | Literal["hosts"] | None = None,
) -> str:
    """Return the message that an agent proposes, in a session of its own; close the client."""
    spec = msgspec.structs.replace(spec, read_files=False, write_files=False, terminals=False, cwd=None, shared=False)
    with tempfile.TemporaryDirectory(prefix="dragoman-message-") as folder:
        session_config = SessionConfig(
            workspace=Workspace(folder),
            access="read-only",
            rules=_RULES,
            sandbox=sandbox,
            network=network,
            skills=(),
            custom_instructions="",
        )
        try:
            session = await client.open(spec, session_config)
            result = await session.run(_prompt(changes), deadline=PROPOSAL_TIMEOUT_S)
        finally:
            await client.close()
    message = clean_message(result.text)
    if not message:
        raise GitActionError("the agent proposed no message", guidance="Write one: -m MESSAGE")
    return message


def is_hidden(workspace: Workspace, config: Config | None, path: Path) -> bool:
    """Return whether a rule keeps an agent from reading a file; so does a path outside of its workspace."""
    try:
        real = workspace.resolve(str(path))
    except OutsideWorkspace:
        return True
    return reading_reason(real, workspace, config or load()) is not None


def _prompt(changes: ChangesText) -> str:
    parts = [_PROMPT]
    if changes.subjects:
        parts.append("The last commits, for the style:\n" + "\n".join(changes.subjects) + "\n")
    parts.append(f"The changed files:\n{changes.files}\n")
    if changes.patch:
        parts.append(f"The difference:\n{changes.patch}")
    return "\n".join(parts)


def clean_message(text: str) -> str:
    """Return the message in an agent's answer: without a code fence or quotes around it."""
    text = text.strip()
    if (fenced := _FENCED.search(text)) is not None:
        text = fenced[1].strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'`" and text[0] not in text[1:-1]:
        text = text[1:-1].strip()
    lines = [line.rstrip() for line in text.replace("\0", "").splitlines()]
    return "\n".join(lines)[:MAX_PROPOSAL_LENGTH].strip()
