"""Questions of an agent to the person (`elicitation/*`).

question   a question, its answers, and the check of a page's URL
form       a form, read from the agent's schema
fields     the kinds of fields, and the validation of their values
questions  the open questions of a session
"""
