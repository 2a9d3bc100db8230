"""The host: what we offer to the agent, and by which rules.

permission  what a person or program is asked, and how it is answered
requests    the agent's requests as such questions
policy/     what the agent may do; shell/ reads its commands
permission_service  decides them: by a rule, an earlier approval, or by asking
pending     requests that wait for an answer; callback calls a program's function
approvals   what was allowed with its content shown, so that it is not asked again when it is carried out
files/      text files inside the workspace
terminal/   commands inside the workspace
question/   what the agent asks the user
handlers    what a caller puts in the place of our files and terminals
refusals    the errors that the host answers with
host        the agent's requests of one session, served
"""
