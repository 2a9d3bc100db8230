"""The demo agent: a real ACP agent in its own process that needs no model, no network and no account.

It shows every kind of update, really edits files and runs commands through the client (or, where the client does not
offer that, by itself), always after asking; and it misbehaves on request. `python -m dragoman.agents.demo` starts it.

    requests.py      what a person can ask, and which of it a prompt means (pure)
    settings.py      modes and config options (pure)
    media.py         a small image and a short sound (pure)
    introduction.py  its capabilities and slash commands
    store.py         saved sessions, so that another process can list, load, resume and fork them
    session.py       an open session and its history
    outbox.py        many small writes become few large ones
    turn.py          one prompt under way: the means by which a scene speaks, shows tool calls and asks
    hands.py         files and commands, through the client or by itself
    scenes.py        which scene plays for which request; the scenes are in show.py, act.py and trouble.py
    agent.py         the ACP side: methods, sessions, cancel

Environment: `DRAGOMAN_DEMO_HOME` (where sessions are saved), `DRAGOMAN_DEMO_PACE` (seconds a word, 0 for no pauses),
`DRAGOMAN_DEMO_AUTH=required` (refuse sessions until `authenticate` was called).
"""
