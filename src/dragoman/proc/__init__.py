"""Processes: starting an agent, holding on to it, and leaving none behind.

link         what a session holds: bytes, stderr, wait, end (`AgentLink`)
spawn        starts a command and says clearly why it could not
process      the link to a real process (`ProcessLink`)
pipes        the three pipe ends on the event loop
pty          a terminal of our own, and a command started on it
exits        hearing of a process's end without losing its number
stderr       the last lines an agent complained with (`StderrTail`)
environment  what an agent inherits, and where its command is found
reaper       the helper that ends agents when we cannot any more
"""
