"""Sessions on a server: a program here drives what a `dragoman serve` on this or another machine runs.

client      `Client`: the sessions of a server; `sync` for programs that are not async
connection  one WebSocket that is kept open: requests that are carried out once, sessions followed without a gap
session     `RemoteSession`: a session on the server, with the promises of a local one
fold        its state, folded here from the frames that the server sends
run_queue   its runs: ours, one at a time, and those of other clients
callbacks   `on_permission` and `on_question` of the program
errors      errors of the server as exceptions

Nothing of the server itself is imported: no HTTP server, no database.
"""
