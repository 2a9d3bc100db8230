"""`dragoman chat`: many prompts in one session.

chat        the options, and the conversation from start to end
agent       the agent and its session: started, resumed and restarted
commands    the meaning of a typed line: the chat's own commands, and `@path` mentions
screen      the output and the status line; the input line of a terminal that can only write line after line
line        the input line of other terminals, drawn by prompt_toolkit, and the output above it
completion  completion and history for the input line
"""
