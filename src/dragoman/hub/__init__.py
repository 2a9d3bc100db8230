"""The hub: the sessions of this process, and the journal that they are stored in.

hub            the journal of a home folder, and the sessions that this process owns
owned_session  one of them: its connection, its queue, and the commands sent to it
commands       the requests that other programs may send to a session
scopes         what a client needs the scope `admin` for, beyond what its request declares
local          `open_session`, `run` and their twins: sessions of a program, stored in the journal
identity       this process, and whether another one lives
"""
