"""Git in a sandbox: `git_paths` finds what git needs to commit, and what stays as it is.

Git runs programs that a repository's hooks and settings name. Those that a command in a sandbox wrote there would run
outside of it, the next time that the user calls git. So they can be read and not changed.

Not covered: a repository that the command makes itself inside the workspace, and a file `.git/commondir`, which leads
git to other settings. Git creates files in that folder, and the kernel cannot keep one name from being created.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from dragoman.workspace.git import MAX_LIST_BYTES, linked_git_dir, path_in_file, read_small

# Of a repository. Git creates the folders by itself; a missing one is made, so that it cannot be made inside.
FIXED_FOLDERS: Final = ("hooks", "info")
SETTINGS: Final = "config"
# Read if `extensions.worktreeConfig` is set.
SETTINGS_OF_WORK_TREE: Final = "config.worktree"
# Of a linked work tree: they lead to its repository, and back.
LINKS_OF_WORK_TREE: Final = ("commondir", "gitdir")
# In a repository with linked work trees, git writes to these for all of them.
SHARED_FOLDERS: Final = ("objects", "refs", "reftable", "logs", "lfs")


class GitPaths(msgspec.Struct, frozen=True, kw_only=True):
    """`read` and `write` are folders outside of the workspace. `fixed` can be read, and neither changed nor replaced.

    `replaceable` should be fixed as well, but are symbolic links, which can be replaced.
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    fixed: tuple[Path, ...] = ()
    replaceable: tuple[Path, ...] = ()


def git_paths(folders: Iterable[Path]) -> GitPaths:
    """Find the paths of git for the folders of a workspace."""
    folders = list(folders)
    read: list[Path] = []
    write: list[Path] = []
    fixed: list[Path] = []
    for folder in folders:
        dot_git = folder / ".git"
        if linked := _linked_work_tree(folder):
            gitdir, common = linked
            fixed += [dot_git, *_fixed_of_work_tree(gitdir, common)]
            if not any(gitdir.is_relative_to(each) or each.is_relative_to(gitdir) for each in folders):
                read.append(common)
                # Git makes none of them a link: one leads where somebody wants to write.
                write += [gitdir, *(common / name for name in SHARED_FOLDERS if not (common / name).is_symlink())]
        elif dot_git.is_symlink() or dot_git.is_file():
            fixed.append(dot_git)
        else:
            fixed += [path for gitdir in (dot_git, folder) if _is_repository(gitdir) for path in _fixed_of(gitdir)]
    return GitPaths(
        read=tuple(read),
        write=tuple(write),
        fixed=tuple(path for path in fixed if not path.is_symlink()),
        replaceable=tuple(path for path in fixed if path.is_symlink()),
    )


def _is_repository(gitdir: Path) -> bool:
    return (gitdir / "HEAD").is_file() and (gitdir / "objects").is_dir() and (gitdir / "refs").is_dir()


def _fixed_of(gitdir: Path) -> Iterator[Path]:
    """Yield the hooks and settings of a repository, of its submodules, and of its linked work trees."""
    for name in FIXED_FOLDERS:
        yield _made(gitdir / name, is_folder=True)
    yield _made(gitdir / SETTINGS)
    if (gitdir / SETTINGS_OF_WORK_TREE).exists() or _has_settings_of_work_trees(gitdir):
        yield _made(gitdir / SETTINGS_OF_WORK_TREE)
    for tree in _subfolders(gitdir / "worktrees"):
        yield from _fixed_of_work_tree(tree, gitdir)
    for module in _modules(gitdir / "modules"):
        yield from _fixed_of(module)


def _fixed_of_work_tree(gitdir: Path, common: Path) -> Iterator[Path]:
    for name in LINKS_OF_WORK_TREE:
        if (gitdir / name).exists():
            yield gitdir / name
    if (gitdir / SETTINGS_OF_WORK_TREE).exists() or _has_settings_of_work_trees(common):
        yield _made(gitdir / SETTINGS_OF_WORK_TREE)


def _modules(folder: Path) -> Iterator[Path]:
    """Yield the repositories of submodules, whose names may have slashes."""
    for child in _subfolders(folder):
        if _is_repository(child):
            yield child
        else:
            yield from _modules(child)


def _subfolders(folder: Path) -> list[Path]:
    try:
        return sorted(child for child in folder.iterdir() if child.is_dir() and not child.is_symlink())
    except OSError:
        return []


def _has_settings_of_work_trees(gitdir: Path) -> bool:
    return b"worktreeconfig" in (read_small(gitdir / SETTINGS, MAX_LIST_BYTES) or b"").lower()


def _made(path: Path, *, is_folder: bool = False) -> Path:
    """Create what is missing, empty: to git it is the same."""
    if not os.path.lexists(path):
        try:
            path.mkdir() if is_folder else path.touch()
        except OSError:
            pass  # closed to this user, so that commands inside cannot make it either
    return path


def _linked_work_tree(folder: Path) -> tuple[Path, Path] | None:
    """Return the folders of git for a linked work tree: its own, and that of its repository.

    A planted `.git` must not open another folder: both lie where git puts them, and lead back.
    """
    dot_git = folder / ".git"
    if dot_git.is_symlink():
        return None
    gitdir = linked_git_dir(dot_git)
    if gitdir is None:
        return None
    common, back = (path_in_file(gitdir / name) for name in LINKS_OF_WORK_TREE)
    if common is None or back is None or back.parent != Path(os.path.realpath(folder)):
        return None
    return (gitdir, common) if _is_repository(common) and gitdir.parent == common / "worktrees" else None
