"""`Approvals`: actions that a person allowed with their content shown, and that the agent then asks us to carry out.

Several agents ask for permission first and write the file, or run the command, through us afterwards. Asking about the
very same thing again would only teach people to say yes. An approval covers exactly what was shown, is used once, and
ends with the run that it was given in.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator

from dragoman.host.permission import PermissionRequest
from dragoman.host.policy.effects import working_folder
from dragoman.host.shell.wrappers import unwrap_shell
from dragoman.workspace import OutsideWorkspace, Workspace

# Agents carry out at once what was allowed; those that do it without the host leave their approvals unused.
MAX_APPROVALS = 64


class Approvals:
    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace
        self._keys: dict[bytes, None] = {}

    def add(self, request: PermissionRequest) -> None:
        """Remember a request of the agent's that a person allowed."""
        for key in self._shown(request):
            self._keys.pop(key, None)
            self._keys[key] = None
        while len(self._keys) > MAX_APPROVALS:
            del self._keys[next(iter(self._keys))]

    def take(self, request: PermissionRequest) -> bool:
        """Return whether our own request, about a file or a command, was allowed before; the approval is used up."""
        keys = list(self._shown(request))
        # Also with a variable set the command is another one: the person saw none.
        if len(keys) != 1 or (request.origin == "terminals" and request.raw_input["env"]):
            return False
        return self._keys.pop(keys[0], self) is None

    def clear(self) -> None:
        self._keys.clear()

    def _shown(self, request: PermissionRequest) -> Iterator[bytes]:
        if request.command is not None:
            raw_input = request.raw_input if isinstance(request.raw_input, dict) else {}
            where = working_folder(raw_input, self._workspace.cwd)
            if where is not None:
                yield _key("run", self._real(where), unwrap_shell(request.command))
            return
        for diff in request.diffs:
            # With the old text: what was shown is the difference, and of another old text it would be another one.
            # Not with its line ends: nobody sees them, and agents tell them as they are in the file, or as LF.
            old_text = (diff.old_text or "").replace("\r\n", "\n")
            yield _key("write", self._real(diff.path), old_text, diff.new_text)

    def _real(self, path: str) -> str:
        try:
            return str(self._workspace.resolve(os.path.join(self._workspace.cwd, path)))
        except OutsideWorkspace:
            return path


def _key(*parts: str) -> bytes:
    """Return a digest: the texts may be large."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(b"%d:%b" % (len(data), data))
    return digest.digest()
