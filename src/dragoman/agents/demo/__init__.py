"""The demo agent: a real ACP agent in its own process that needs no model, no network and no account.

It shows every kind of update, really edits files and runs commands through the client (or, where the client does not
offer that, by itself), always after asking; and it misbehaves on request. `python -m dragoman.agents.demo` starts it.

    demo.toml            what a person can ask, the scenes that need no code, modes, options and a form
    requests.py          demo.toml as types, and which request a prompt means (pure)
    settings.py          modes and config options (pure)
    store.py             saved sessions, so that another process can list, load, resume and fork them
    session.py           an open session, its history, and the run of one prompt
    scenes.py            the actions for each request
    workspace_scenes.py  the scenes that use files and commands, or ask the person
    agent.py             the ACP side: capabilities, methods, sessions, cancel

Environment: `DRAGOMAN_DEMO_HOME` (where sessions are saved), `DRAGOMAN_DEMO_PACE` (seconds per word, 0 for no pauses),
`DRAGOMAN_DEMO_AUTH=required` (refuse sessions until `authenticate` was called).
"""
