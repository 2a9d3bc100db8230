"""The bridge: the hub on the network. Loaded by `dragoman serve`, never by `import dragoman`.

bridge          `Bridge`: carries out requests, with the handlers in `handlers/`
broadcaster     streams of sessions for any number of clients; `listing` for the list of sessions
socket, http    the two ways in; `openapi` describes the second
auth, security  who may come in, and what holds for every request
server, listen  the listening server and its address
"""
