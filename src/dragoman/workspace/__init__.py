"""The workspace: the folders that a session may touch, on one machine.

folders  `Workspace`: these folders, and the check that a path is inside them
paths    the safe lookup of a path; `PinnedPath`, a path whose folder is held open; the replacement of a file
listing  the files of a folder, to choose from
sandbox  the confinement of an agent and its commands by the kernel: `sandbox_policy` (data and reports),
         `sandbox_paths` (which files), `sandbox_git` (of git), `sandbox_network` (the proxy), `_sandbox_main`
         (the launcher)

checkpoints       the workspace of a session before and after its runs, over all its folders; comparing and rewinding
checkpoint_store  the checkpoints of one folder
shadow            the git repository that they are stored in
tree_diff         the difference of two of them
restore           files that are brought back
git               the program git, on repositories of our own

user_git      the program git, on the user's own repository
git_state     the branch and the changed files of that repository
git_actions   commits and pushes in it; pull_request: pull requests by gh and glab
git_trust     settings and hooks of it that were changed since agents work there
commit_diff   what a commit would contain, for an agent that proposes its message

worktrees         folders and branches of their own for sessions
worktree_store    their records, settings and names
worktree_git      the user's repository, its work trees and branches
worktree_create   making one
worktree_setup    the ignored files and the setup command of a new one
worktree_merge    applying and merging
worktree_removal  dropping, recovering and pruning
"""

from dragoman.workspace.folders import Workspace
from dragoman.workspace.paths import OutsideWorkspace, PinnedPath

__all__ = ["OutsideWorkspace", "PinnedPath", "Workspace"]
