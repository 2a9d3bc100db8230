"""Replace a file as a whole: the new content is written beside the old file, and takes its name at the end.

Promised: a reader of the name gets the old content or the new one, also after a power failure; a hard link of the old
file elsewhere keeps its content; on any failure the old file is unchanged, and no other file is left. The new file has
the mode of the old one, and its owner, group, access list and attributes as far as this user may set them. A new file
gets its mode from the folder and the umask.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

from dragoman.fileio import replacing

# Without setuid and setgid, which were granted to the old content: the kernel, too, clears them on a write.
_COPIED_MODE: Final = 0o7777 & ~(stat.S_ISUID | stat.S_ISGID)

# The user's own attributes and the access list. The system sets the others.
_COPIED_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")


def replace_file(folder: int, name: str, data: bytes) -> None:
    """Write the file of this name in a folder (a descriptor), whether it exists or not. Raises `OSError`."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    # Readable only by its owner until the mode is copied: a private file must not become readable.
    with replacing(name, mode=0o666 if old is None else 0o600, dir_fd=folder) as file:
        file.write(data)
        if old is not None:
            file.flush()  # a later write would clear some of the mode's bits
            _copy_owner_and_mode(file.fileno(), old)
            _copy_attributes(folder, name, file.fileno())


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the owner, group and mode of the old one."""
    mode = stat.S_IMODE(old.st_mode) & _COPIED_MODE
    new = os.fstat(descriptor)
    for uid, gid in ((old.st_uid, -1), (-1, old.st_gid)):  # one by one: often only the group can be set
        if (uid, gid) not in ((new.st_uid, -1), (-1, new.st_gid)):
            with suppress(PermissionError):
                os.fchown(descriptor, uid, gid)
    if os.fstat(descriptor).st_gid != old.st_gid:
        # Another group does not get the rights of the old group, only those of everyone.
        mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _copy_attributes(folder: int, name: str, descriptor: int) -> None:
    """Copy the attributes as far as possible: not every system, disk or file has them."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                if attribute.startswith(_COPIED_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)
