"""`dragoman chat`: many prompts in one session.

command     its options
drive       the conversation, from start to end; agent starts, resumes and restarts it; signals ends it
input       what is typed: line with prompt_toolkit, plain without; history, completion, mentions
commands    what begins with a colon
screen      what is shown above the input; output and tail write it, status is the line below
"""
