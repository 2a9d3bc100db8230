"""What an agent asks the user (`elicitation/*`).

fields     one thing to fill in, and what fits it; pattern judges the agent's own expressions
form       the fields of a question, and what was filled in
page       an address that is to be opened
question   one question, and its answers
questions  those that wait for an answer
"""
