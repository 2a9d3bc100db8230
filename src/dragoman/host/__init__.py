"""The host: what we offer to the agent, and by which rules.

permission  what a person or program is asked, and how it is answered
requests    the agent's requests as such questions
access      what each access allows, refuses and asks (pure)
broker      the questions that wait for an answer
approvals   what was allowed with its content shown, so that it is not asked again when it is carried out
files       text files inside the workspace
terminals   commands inside the workspace
handlers    what a caller puts in the place of these two
host        the agent's requests of one session, answered
"""
