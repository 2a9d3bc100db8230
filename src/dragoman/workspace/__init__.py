"""The workspace: the folders a session may touch, on one machine.

folders     which these are, and whether a path is in them
paths       where a path leads, and a place there held open
replacing   a file replaced whole
"""

from dragoman.workspace.folders import Workspace
from dragoman.workspace.paths import OutsideWorkspace, Place

__all__ = ["OutsideWorkspace", "Place", "Workspace"]
