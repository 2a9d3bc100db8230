"""The workspace: the folders that a session may touch, on one machine.

folders  `Workspace`: these folders, and the check that a path is inside them
paths    the safe lookup of a path; `PinnedPath`, a path whose folder is held open; the replacement of a file
listing  the files of a folder, to choose from
"""

from dragoman.workspace.folders import Workspace
from dragoman.workspace.paths import OutsideWorkspace, PinnedPath

__all__ = ["OutsideWorkspace", "PinnedPath", "Workspace"]
