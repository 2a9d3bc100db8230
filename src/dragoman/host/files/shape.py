"""What of a text file's form outlives the text that an agent sends for it. Pure.

Models write lines that end with LF and no byte order mark, whatever the file had: a file whose lines all end with CR LF
would come back changed in every line, and a script without its mark is read as another encoding by some programs. So:

- a file that begins with a byte order mark keeps it, also where the text that comes has none;
- a file whose lines all end with CR LF keeps them, where the text that comes has no CR at all. A text with a CR in it
  is written as it is: its author knows of them.

All else is as it was sent, the end of the last line too.
"""

from __future__ import annotations

from typing import Final

MARK: Final = "\ufeff"


def keep(old: str, new: str) -> str:
    """The new text as it is to be written in place of the old one."""
    if _keeps_ends(old, new):
        new = new.replace("\n", "\r\n")
    return MARK + new if _keeps_mark(old, new) else new


def show(old: str, new: str) -> str:
    """The old text as it is to be shown beside the new one: without what is kept, which is no difference."""
    if _keeps_ends(old, new):
        old = old.replace("\r\n", "\n")
    return old.removeprefix(MARK) if _keeps_mark(old, new) else old


def _keeps_ends(old: str, new: str) -> bool:
    return "\r" not in new and 0 < old.count("\n") == old.count("\r\n")


def _keeps_mark(old: str, new: str) -> bool:
    return old.startswith(MARK) and new != "" and not new.startswith(MARK)
