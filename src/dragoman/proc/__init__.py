"""Processes: start an agent, hold it, and leave no process behind.

link         `AgentLink`: bytes, stderr, wait and end of a running agent
spawn        start a command, and explain why it could not be started
process      `ProcessLink`: the link to a real process
pipes        the three pipe ends on the event loop
pty          a pseudo-terminal, and a command started in it
exits        watch for the end of a process without losing its pid
stderr       `StderrTail`: the last lines of an agent's stderr
environment  the environment of an agent, and the search for its command
reaper       the helper that ends agents when this process cannot
"""
