"""`ShadowRepository`: a git repository of our own below the home folder, with states of one folder's files as trees.

It has its own index, by which git finds changed files without reading the others.

Promised: nothing is written to the folder; the user's own repository there is not touched, and of its files only the
list of ignored files and the index are read. Several processes may use the repository: a lock excludes them from each
other. A process that is killed at any moment leaves one that the next process goes on with.

Not promised: that files which change while they are recorded are in the tree as they were at one moment.

Not recorded: what git ignores, empty folders, devices, FIFOs and sockets. Nested repositories, files over the limit and
files that cannot be read are reported as skipped.

Blocking: call it in a thread.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import stat
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from dragoman.errors import CheckpointError
from dragoman.fileio import PRIVATE, atomic_write
from dragoman.protocol.checkpoints import SkippedPath
from dragoman.workspace.git import (
    ATTRIBUTES,
    LIST_NAMES,
    MAX_LIST_BYTES,
    Abort,
    Git,
    GitError,
    find_repository,
    is_unreadable_list,
    linked_git_dir,
    read_small,
    unreadable_lists,
    user_excludes_file,
)
from dragoman.workspace.restore import FileChange, FileModes, FileVersion, FolderWriter

FOLDER_NAME: Final = "checkpoints"

# From this number of new files on, git writes them into one pack. As single files they would take 4 KiB each at least.
MIN_PACKED_FILES: Final = 500

# Files that are added at once.
MAX_ADDED_FILES: Final = 20_000

# A folder with more than this is hardly a project: a home folder, or a disk.
MAX_NEW_FILES: Final = 500_000
MAX_NEW_BYTES: Final = 8 * 1024**3

# Skipped paths that are listed; the others are counted.
MAX_SKIPPED: Final = 1000

# Seconds between two looks at a lock that another process has.
LOCK_POLL_S: Final = 0.02

# In what git says when the repository cannot be written.
_FULL_DISK: Final = ("No space left", "Out of diskspace")
_WRITE_FAILURES: Final = ("unable to write", "write error", "insufficient permission", *_FULL_DISK)


# The same, of a folder that it cannot list; it goes on with the others. A very long message is cut off.
_UNREADABLE_FOLDER: Final = re.compile(rb"^warning: could not open directory '(.*?)(?:': ([^'\n]*))?$", re.MULTILINE)


class Snapshot(NamedTuple):
    """The files of the folder as they are now."""

    tree: str
    skipped_paths: tuple[SkippedPath, ...]
    more_skipped: int = 0


class _Store(msgspec.Struct, frozen=True):
    """`store.json`: what the repository is for. Paths are hexadecimal bytes: JSON cannot hold every name."""

    folder: str
    work_tree: str


def path_text(path: bytes) -> str:
    """Return a path as text for people and JSON, whatever bytes it has."""
    return path.decode("utf-8", "backslashreplace")


class ShadowRepository:
    """The repository of `folder`, an absolute path without links, below the home folder `home`.

    `max_file_bytes`: larger files are skipped. `timeout_s`: time for each use, with the wait for other processes.
    """

    def __init__(self, home: Path, folder: Path, *, max_file_bytes: int, timeout_s: float = 60.0) -> None:
        self.folder = folder
        self.path = repository_path(home, folder)
        self.abort = Abort()
        self._home = home
        self._max_file_bytes = max_file_bytes
        self._timeout_s = timeout_s
        self._work_tree: Path | None = None
        self._excludes_file: Path | None = None
        self._lists: list[bytes] = []  # lists of ignored files and of attributes that git may not get past
        self._user_index: tuple[int, int, int] | None = None  # the state of the user's index that was looked at

    @contextmanager
    def open(self, timeout_s: float | None = None, *, waits: bool = True) -> Iterator[Git]:
        """Lock the repository, and create it where it is missing. Raises `CheckpointError`, also for what goes wrong
        with it while it is open; without `waits`, also if another process has it."""
        deadline = time.monotonic() + (timeout_s or self._timeout_s)
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
            try:
                _lock(lock, deadline if waits else 0.0)
                yield self._prepare(lock, deadline)
            except GitError:
                self._remove_temporary_objects()  # git leaves them where it fails, and perhaps the disk is full of them
                raise
            finally:
                os.close(lock)
        except GitError as error:
            if self._work_tree is not None and (error.exit_code is None or error.exit_code < 0):  # it was ended
                self._lists += unreadable_lists(self._work_tree)
            if any(failure in error.stderr for failure in _FULL_DISK):
                raise CheckpointError(f"{self.folder}: the disk of {self.path} is full") from error
            raise CheckpointError(f"{self.folder}: {error}", guidance=error.guidance) from error
        except OSError as error:
            raise CheckpointError(f"{self.folder}: {error.strerror or error}") from error

    @property
    def work_tree(self) -> Path:
        """The root of the trees: the folder, or the root of the user's repository that it is in."""
        assert self._work_tree is not None, "it was not opened"
        return self._work_tree

    @property
    def scope(self) -> bytes:
        """The folder relative to the root of the trees; empty where it is the root."""
        relative = os.fsencode(self.folder.relative_to(self.work_tree))
        return b"" if relative == b"." else relative

    @property
    def is_in_place(self) -> bool:
        """False where the folder is gone, or a symbolic link on the way to it leads elsewhere."""
        return os.path.isdir(self.folder) and os.path.realpath(self.folder) == str(self.folder)

    def check_in_place(self) -> None:
        """Raise `CheckpointError` where the folder is not: nothing may be read or written in its name."""
        if not self.is_in_place:
            raise CheckpointError(
                f"{self.folder} was moved, removed or replaced by a symbolic link since its session was opened",
                guidance="Move it back, or open a session in the folder where it is now.",
            )

    def file_modes(self) -> FileModes:
        """Return the modes of recorded files that git does not keep."""
        return FileModes(self.path / "modes.json")

    # -- trees

    def snapshot(self, git: Git) -> Snapshot:
        """Bring the index, and so the newest tree, up to date with the files."""
        self.check_in_place()
        self._check_lists()
        self._write_excludes()
        head, staged, removed, changed, skipped = self._status(git)
        wanted: list[bytes] = []
        new_bytes = 0
        modes: dict[bytes, int] = {}
        for path in [*changed, *self._tracked_though_ignored(git)]:
            status, reason = self._judge(path)
            if reason is not None:
                skipped.append(SkippedPath(path=path_text(path.rstrip(b"/")), reason=reason))
                continue
            wanted.append(path)
            if status is not None:
                new_bytes += status.st_size
                if stat.S_ISREG(status.st_mode):
                    modes[path] = status.st_mode & 0o777
        if len(wanted) > MAX_NEW_FILES or new_bytes > MAX_NEW_BYTES:
            raise CheckpointError(
                f"{self.folder} has {len(wanted):,} new files with {new_bytes / 1024**3:.1f} GiB, too much for a"
                " checkpoint",
                guidance="Open the session in a smaller folder, list what is not to be kept in .gitignore, or switch"
                " checkpoints off.",
            )
        if modes:
            self.file_modes().note(modes)
        if removed:  # first: a folder may be a file now, or a link
            listed = b"".join(path + b"\0" for path in removed)
            git.run("update-index", "--force-remove", "-z", "--stdin", stdin=listed)
        # In parts: if this takes too long or is killed, the next checkpoint has less to do.
        for start in range(0, len(wanted), MAX_ADDED_FILES):
            skipped += self._add(git, wanted[start : start + MAX_ADDED_FILES])
        tree = self._commit(git) if staged or wanted or removed else self._tree_of_head(git, head)
        skipped.sort(key=lambda each: each.path)
        return Snapshot(tree, tuple(skipped[:MAX_SKIPPED]), max(0, len(skipped) - MAX_SKIPPED))

    def changes(self, git: Git, old_tree: str, new_tree: str) -> list[FileChange]:
        """Return the files in which two trees differ."""
        output = git.run("diff-tree", "-r", "-z", "--no-renames", "--raw", "--no-abbrev", old_tree, new_tree)
        fields = output.split(b"\0")
        changes = []
        for head, path in zip(fields[:-1:2], fields[1::2], strict=True):
            old_mode, new_mode, old_id, new_id, _ = head.decode().removeprefix(":").split(" ")
            changes.append(FileChange(path, _version(old_mode, old_id), _version(new_mode, new_id)))
        return changes

    def save(self, git: Git, paths: Iterable[bytes]) -> tuple[str, list[SkippedPath]]:
        """Record the files among these paths, also if git ignores them; return the tree, and those that cannot be."""
        files = self._files_among(paths)
        skipped = self._add(git, files) if files else []
        return self._commit(git) if files else self._tree_of_head(git, ""), skipped

    def ignored_by(self, git: Git, tree: str, paths: Sequence[bytes]) -> set[bytes]:
        """Return those of the paths that the lists of ignored files in a tree name."""
        if not paths:
            return set()
        listing = git.run("ls-tree", "-r", "-z", tree).split(b"\0")
        lists = [
            line.split(b"\t", 1)
            for line in listing
            if line.endswith((b"\t.gitignore", b"/.gitignore"))
            and not line.startswith(b"120000")  # git follows no link
        ]
        folder = self.path / "ignore-lists"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            with git.blobs() as blobs:
                for head, name in lists:
                    file = folder / os.fsdecode(name)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    file.write_bytes(blobs.read(head.split()[2].decode()))
            ignoring = git.on_work_tree(folder)
            try:
                # With `./`: a colon at the beginning would not be a part of the name.
                listed = b"".join(b"./" + path + b"\0" for path in paths)
                ignored = ignoring.run("check-ignore", "--no-index", "-z", "--stdin", stdin=listed)
            except GitError as error:
                if error.exit_code != 1:
                    raise
                return set()  # none of them
            return {path.removeprefix(b"./") for path in ignored.split(b"\0") if path}
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def drop_trees(self, git: Git, needed_trees: Collection[str]) -> None:
        """Remove all trees but these and the newest, with the contents that only they have."""
        trees = {*needed_trees, self._tree_of_head(git, "")}
        refs = git.run("for-each-ref", "--format=%(refname)", "refs/trees").decode().split()
        dropped = [ref for ref in refs if ref.rpartition("/")[2] not in trees]
        git.run("update-ref", "--stdin", stdin="".join(f"delete {ref}\n" for ref in dropped).encode())
        git.run("pack-refs", "--all")
        git.run("repack", "-a", "-d", "-q")
        git.run("prune", "--expire=now")

    # -- the files as they are

    def _check_lists(self) -> None:
        """Refuse a list of ignored files or of attributes that git would not get past."""
        for name in [*map(os.fsencode, LIST_NAMES), *self._lists]:
            if is_unreadable_list(os.path.join(os.fsencode(self.work_tree), name)):
                raise CheckpointError(
                    f"{path_text(name)} in {self.work_tree} is no regular file, or very large: git cannot read it",
                    guidance="Remove it.",
                )

    def _status(self, git: Git) -> tuple[str, bool, list[bytes], list[bytes], list[SkippedPath]]:
        """Return the newest commit, whether the index has changes already, the files that are gone, the new or changed
        ones, and the folders that cannot be read."""
        command = ("status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all", "--no-renames")
        scope = ("--", self.scope) if self.scope else ()
        index = git.git_dir / "index"
        if not index.exists() and self._head_path.exists():
            git.run("read-tree", "HEAD")  # it was lost; the newest tree has all of it
        try:
            output, warnings = git.run_with_warnings(*command, *scope)
        except GitError as error:
            if "index" not in error.stderr:
                raise
            index.unlink(missing_ok=True)  # it is broken
            if self._head_path.exists():
                git.run("read-tree", "HEAD")
            output, warnings = git.run_with_warnings(*command, *scope)
        head, staged, removed, changed = "", False, [], []
        for line in output.split(b"\0")[:-1]:
            match line[:2]:
                case b"# ":
                    if line.startswith(b"# branch.oid "):
                        head = line.rpartition(b" ")[2].decode()
                case b"? ":
                    changed.append(line[2:])
                case _:
                    _, state, *_, path = line.split(b" ", 8)
                    staged = staged or state[:1] != b"."
                    if state[1:] == b"D":
                        removed.append(path)
                    elif state[1:] != b".":
                        changed.append(path)
        skipped = [
            SkippedPath(path=path_text(found[1].rstrip(b"/")), reason=path_text(found[2] or b"File name too long"))
            for found in _UNREADABLE_FOLDER.finditer(warnings)
        ]
        return head, staged, removed, changed, skipped

    def _tracked_though_ignored(self, git: Git) -> list[bytes]:
        """Return the files that the user's repository tracks and its lists ignore: git finds changes there, too."""
        repository = find_repository(self.work_tree)
        if repository is None or repository[0] != self.work_tree:
            return []
        # A linked work tree has an index of its own.
        index = (linked_git_dir(self.work_tree / ".git") or repository[1]) / "index"
        try:
            status = index.stat()
        except OSError:
            return []
        if not stat.S_ISREG(status.st_mode):
            return []
        state = (status.st_ino, status.st_size, status.st_mtime_ns)
        if state == self._user_index:
            return []
        try:
            output = git.run_on_index(index, "ls-files", "-z", "--cached", "--ignored", "--exclude-standard")
        except GitError:
            return []  # of a format that this git does not read, such as a split index
        self._user_index = state
        scope = self.scope + b"/" if self.scope else b""
        paths = [path for path in output.split(b"\0") if path and path.startswith(scope)]
        known = set(git.run("ls-files", "-z", "--cached").split(b"\0")) if paths else set()
        return self._files_among(path for path in paths if path not in known)

    def _judge(self, path: bytes) -> tuple[os.stat_result | None, str | None]:
        """Return the status of a file, and why it is skipped, if it is."""
        if path.endswith(b"/"):
            return None, "a nested repository"
        if any(name.lower() == b".git" for name in path.split(b"/")):
            return None, "git stores no file of this name"
        try:
            status = os.lstat(os.path.join(os.fsencode(self.work_tree), path))
        except OSError:
            return None, None  # gone meanwhile: git takes note
        if stat.S_ISREG(status.st_mode) and status.st_size > self._max_file_bytes:
            return status, f"larger than {self._max_file_bytes / 1024**2:g} MiB"
        return status, None

    def _files_among(self, paths: Iterable[bytes]) -> list[bytes]:
        """Return the paths at which there is a file or a link now."""
        with FolderWriter(self.work_tree, "") as reader:
            return [path for path in paths if isinstance(reader.version(path), FileVersion)]

    def _add(self, git: Git, paths: Sequence[bytes]) -> list[SkippedPath]:
        """Put files into the index; return those that cannot be read."""
        # Git writes contents over this limit into one pack. It has no other option for that.
        config = ["core.bigFileThreshold=1"] if len(paths) > MIN_PACKED_FILES else []
        listed = b"".join(path + b"\0" for path in paths)
        try:
            git.run("update-index", "--add", "--remove", "--replace", "-z", "--stdin", stdin=listed, config=config)
        except GitError as error:
            if not error.stderr or any(failure in error.stderr for failure in _WRITE_FAILURES):
                raise  # it was killed, took too long, or the disk is full: no single file is the reason
            if len(paths) == 1:
                return [SkippedPath(path=path_text(paths[0]), reason=_reason(error))]
            half = len(paths) // 2
            return [*self._add(git, paths[:half]), *self._add(git, paths[half:])]
        return []

    def _commit(self, git: Git) -> str:
        """Return the tree of the index, which stays in the repository."""
        tree = git.run("write-tree").decode().strip()
        commit = git.run("commit-tree", "-m", "checkpoint", tree).decode().strip()
        update = f"update HEAD {commit}\nupdate {_ref(tree)} {commit}\n".encode()
        try:
            git.run("update-ref", "--stdin", stdin=update)
        except GitError as error:
            if ".lock" not in error.stderr:
                raise
            for stale in (git.git_dir / "refs").rglob("*.lock"):  # of a process of git that was killed
                stale.unlink()
            git.run("update-ref", "--stdin", stdin=update)
        atomic_write(self._head_path, f"{commit} {tree}".encode(), sync=False)
        return tree

    def _tree_of_head(self, git: Git, head: str) -> str:
        """Return the tree of the newest commit; from a file, where that is up to date, because a process costs more."""
        with suppress(OSError, ValueError):
            commit, tree = self._head_path.read_text().split()
            if commit == head:
                return tree
        if head == "(initial)":
            return self._commit(git)
        return git.run("rev-parse", "--verify", "HEAD^{tree}").decode().strip()

    # -- the repository

    @property
    def _head_path(self) -> Path:
        return self.path / "head"

    def _prepare(self, lock: int, deadline: float) -> Git:
        """Create the repository, if it is new. The caller has the lock, so no other process is at work."""
        git_dir = self.path / "git"
        store_path = self.path / "store.json"
        try:
            store = msgspec.json.decode(store_path.read_bytes(), type=_Store)
            work_tree = Path(os.fsdecode(bytes.fromhex(store.work_tree)))
        except (FileNotFoundError, msgspec.MsgspecError, ValueError):
            # What there is belongs to a repository that was not completed, or is broken: its trees are gone.
            for name in list_names(self.path):
                if name != "lock":
                    _remove(self.path / name)
            _check_size_of(self.folder)
            work_tree = self._find_work_tree(deadline)
            git = Git(git_dir, work_tree, lock=lock, deadline=deadline, abort=self.abort)
            git_dir.mkdir(mode=0o700)
            git.run("init", "--quiet", "--template=", "--object-format=sha1")
            (git_dir / "info").mkdir(exist_ok=True)
            (git_dir / "info" / "attributes").write_bytes(ATTRIBUTES)
            store = _Store(os.fsencode(self.folder).hex(), os.fsencode(work_tree).hex())
            write_durably(store_path, msgspec.json.encode(store))
        self.abort.reset()
        if self._work_tree is None:
            self._excludes_file = user_excludes_file()
        self._work_tree = work_tree
        # Of a process of git that was killed: nobody else is at work.
        stale = [path for name in ("index.lock", "HEAD.lock", "packed-refs.lock") if (path := git_dir / name).exists()]
        for path in stale:
            path.unlink()
        if stale:
            self._remove_temporary_objects()
        git = Git(git_dir, work_tree, lock=lock, deadline=deadline, abort=self.abort)
        git.excludes_file = self._excludes_file
        return git

    def _remove_temporary_objects(self) -> None:
        for folder, folders, names in os.walk(self.path / "git" / "objects"):
            for name in names:
                if name.startswith("tmp_"):
                    (Path(folder) / name).unlink(missing_ok=True)
            for name in [name for name in folders if name.startswith("tmp_objdir-")]:
                shutil.rmtree(Path(folder) / name, ignore_errors=True)

    def _find_work_tree(self, deadline: float) -> Path:
        """Return the root of the trees: that of the user's repository, whose lists of ignored files count from there.

        A folder that is ignored there, such as one for scratch files, is its own root.
        """
        repository = find_repository(self.folder)
        if repository is None or repository[0] == self.folder:
            return self.folder
        work_tree = repository[0]
        probe = self.path / "probe"
        shutil.rmtree(probe, ignore_errors=True)
        git = Git(probe, work_tree, deadline=deadline)
        try:
            probe.mkdir(mode=0o700)
            git.run("init", "--quiet", "--template=", "--object-format=sha1")
            git.run("check-ignore", "--quiet", "--no-index", self.folder)
        except GitError:
            return work_tree  # exit code 1: it is not ignored
        finally:
            shutil.rmtree(probe, ignore_errors=True)
        return self.folder

    def _write_excludes(self) -> None:
        """Write the list of ignored files that belongs to no folder: that of the user's repository, and our own."""
        lines = b""
        if (repository := find_repository(self.work_tree)) is not None and repository[0] == self.work_tree:
            lines = (read_small(repository[1] / "info" / "exclude", MAX_LIST_BYTES) or b"") + b"\n"
        lines += b".dragoman-" + b"[0-9a-f]" * 16 + b"\n"  # files that are being written
        home = Path(os.path.realpath(self._home))
        if home.is_relative_to(self.work_tree) and home != self.work_tree:
            lines += b"/" + _escape(os.fsencode(home.relative_to(self.work_tree))) + b"/\n"
        path = self.path / "git" / "info" / "exclude"
        if not path.exists() or path.read_bytes() != lines:  # a new file would cost the cache of untracked files
            atomic_write(path, lines, sync=False)


def repository_path(home: Path, folder: Path) -> Path:
    return home / FOLDER_NAME / hashlib.sha256(os.fsencode(folder)).hexdigest()[:24]


def all_repositories(home: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the path of each repository, and the folder that it is for."""
    for name in list_names(home / FOLDER_NAME):
        path = home / FOLDER_NAME / name
        with suppress(OSError, msgspec.MsgspecError, ValueError):
            store = msgspec.json.decode((path / "store.json").read_bytes(), type=_Store)
            yield path, Path(os.fsdecode(bytes.fromhex(store.folder)))


def _check_size_of(folder: Path) -> None:
    """Refuse folders that hold more than a project: the home folder, and those above it."""
    home = Path(os.path.realpath(os.path.expanduser("~")))
    if home.is_relative_to(folder) and not (folder / ".git").exists():
        raise CheckpointError(
            f"{folder} is a home folder, or contains one, and is no git repository: checkpoints of it would be too"
            " large",
            guidance="Open the session in the folder of a project.",
        )


def _lock(descriptor: int, deadline: float) -> None:
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                raise CheckpointError(
                    "another process has been busy with the checkpoints of this folder for too long"
                ) from None
            time.sleep(LOCK_POLL_S)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink()


def _version(mode: str, object_id: str) -> FileVersion | None:
    return None if mode == "000000" else FileVersion(int(mode, 8), object_id)


def _ref(tree: str) -> str:
    return f"refs/trees/{tree}"


def _reason(error: GitError) -> str:
    return error.stderr.splitlines()[0].rpartition(": ")[2]  # what is before it names the file


def _escape(path: bytes) -> bytes:
    """Return a path as a pattern of an ignore list."""
    return b"".join(b"\\" + bytes([byte]) if byte in b"*?[\\!# " else bytes([byte]) for byte in path)


def write_durably(path: Path, data: bytes) -> None:
    """Replace a file so that it is there after a power failure."""
    atomic_write(path, data)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def list_names(folder: Path) -> list[str]:
    """Return the names in a folder, in order; none where there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []
