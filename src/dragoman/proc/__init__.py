"""Processes: start an agent, hold it, and leave no process behind.

link         `AgentLink`: bytes, stderr, wait and end of a running agent; `StderrTail`: the last lines of its stderr
spawn        start a command, and explain why it could not be started
process      `ProcessLink`: the link to a real process, and the watch for its end
pipes        the three pipe ends on the event loop
pty          a pseudo-terminal, and a command started in it
environment  the environment of an agent, and the search for its command
reaper       the helper that ends agents when this process cannot
"""
