"""The bridge: the hub on the network. Loaded by `dragoman serve`, never by `import dragoman`.

payload    rows as they cross the socket: snake_case, typed
messages   what the server says on the socket
asked      what a client says there
answers    what its controls are answered with
"""
