"""Commands that run for the agent, as `terminal/*` asks for them.

terminal   one command, from its start to the end of all that it started
terminals  those of a session
output     what it wrote: for the agent as text, for followers as bytes; tail and plain are its parts
turns      how terminals take turns in reading, so that a flood leaves time for all else
"""
