"""Files replaced whole: the new content is written beside the old file, and takes its name at the end.

Promised: whoever opens the name meanwhile gets the old content or the new one, also after a power cut; a hard link of
the old file elsewhere keeps its content; on any failure the old file is as it was, and nothing is left beside it. The
new file has the old one's mode, and its owner, group, access list and other attributes as far as we may set them. A
file that is new gets what the folder and the umask say.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import Final

from dragoman.fileio import replacing

# The right to act as someone else is for the content that it was given to: the system, too, takes it from a file that
# is written to.
_KEPT_MODE: Final = 0o7777 & ~(stat.S_ISUID | stat.S_ISGID)

# Of the attributes: the user's own, and the access list. The others are the system's to set anew.
_KEPT_ATTRIBUTES: Final = ("user.", "system.posix_acl_access")


def replace(folder: int, name: str, data: bytes) -> None:
    """The file of this name in the folder (a descriptor), which may be there or not. Raises `OSError`."""
    try:
        old = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        old = None
    # Nobody is to read from the new file what could not be read from the old one.
    with replacing(name, mode=0o666 if old is None else 0o600, dir_fd=folder) as file:
        file.write(data)
        if old is not None:
            file.flush()  # a write takes rights away that are set before it
            _copy_owner_and_mode(file.fileno(), old)
            _copy_attributes(folder, name, file.fileno())


def _copy_owner_and_mode(descriptor: int, old: os.stat_result) -> None:
    """Give the new file the owner, group and mode of the old one."""
    mode = stat.S_IMODE(old.st_mode) & _KEPT_MODE
    new = os.fstat(descriptor)
    for uid, gid in ((old.st_uid, -1), (-1, old.st_gid)):  # one by one: often only the group can be kept
        if (uid, gid) not in ((new.st_uid, -1), (-1, new.st_gid)):
            with suppress(PermissionError):
                os.fchown(descriptor, uid, gid)
    if os.fstat(descriptor).st_gid != old.st_gid:
        # What its group was allowed, another one is not: that has the rights of everyone.
        mode = mode & ~0o070 | (mode & 0o007) << 3
    os.fchmod(descriptor, mode)


def _copy_attributes(folder: int, name: str, descriptor: int) -> None:
    """As far as it goes: not every system, disk or file has them."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError):
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(source):
                if attribute.startswith(_KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(descriptor, attribute, os.getxattr(source, attribute))
        finally:
            os.close(source)
