"""Questions of an agent to the person (`elicitation/*`).

question   a question, its answers, and the check of a page's URL
form       a form, read from the agent's schema; its fields, and the validation of answers
questions  the open questions of a session
"""
