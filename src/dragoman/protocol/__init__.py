"""The protocol between Dragoman's server and its clients, declared once.

requests   what a client sends: each request with its fields, result, scope, HTTP route and whether it changes something
results    what the server answers to a request
messages   what the server sends on the socket: streams, results, errors
models     the rows, sessions and agents inside results and messages

The server's dispatch, the OpenAPI description and the page's TypeScript types are derived from these modules. Servers
(`bridge`) and clients (`remote`) depend on this package, and not on each other.
"""
