"""The workspace: the folders a session may touch, on one machine."""

from dragoman.workspace.folders import OutsideWorkspace, Workspace

__all__ = ["OutsideWorkspace", "Workspace"]
