"""Commands that run for the agent, for `terminal/*`.

terminal   one command, from its start to the end of everything that it started
terminals  the commands of a session
output     a command's output: as text for the agent, as bytes for followers
"""
