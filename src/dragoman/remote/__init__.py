"""Sessions on a server: what a program drives here is run by a `dragoman serve` elsewhere.

client       `Client`: sessions by the agent's name, on a server
socket       one WebSocket, kept up: calls that are done once, sessions that are followed without a gap
connecting   how that connection comes about
session      a session on the server, with the promises of one here
turns        its runs: ours, one at a time, and those of others
frames       what the server tells of a session, as what happened in it
asking       `on_permission` and `on_question` of a program, for questions that are asked there
said         a prompt as it crosses
refused      the server's errors as ours
sync         the same for programs that are not async

Nothing of the server itself is loaded: no HTTP, no database.
"""
