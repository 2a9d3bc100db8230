"""The replay agent: a recorded session, played back to any ACP client by an agent that needs no model and no account.

    script.py   a recording as a script: steps, stretches, tracks (pure)
    reading.py  JSON Lines to a script: recordings of connections, and sessions out of a journal (pure)
    compare.py  whether the client says what it said then, and the difference where it does not (pure)
    names.py    ids and folders of then and of now, exchanged in each frame (pure)
    history.py  a session told as what happened before, for a client that loads it (pure)
    act.py      what a play is made of: requests, the manner, the stretch under way
    playing.py  one session while it is played: what is said next, and what it waits for (pure)
    player.py   the ACP side: methods, sessions, answers (pure: lines in, lines out, the clock is passed in)
    agent.py    the shell: a player on a transport

`dragoman replay` starts it; `dragoman.testing.recorded` plays in a test what was recorded once. docs/replay.md tells
what is played, when, and what is an error.
"""
