"""The host: the files, terminals, permissions and questions that we offer to the agent, and the rules for them.

host                serves the agent's requests of one session
requests            the agent's requests as permission requests
permission          permission requests and their answers
permission_service  decides them: by a rule, an earlier approval, or by asking
policy/             the rules; shell/ reads the agent's commands for them
pending             requests that wait for an answer
files               text files inside the workspace
terminal/           commands inside the workspace
question/           questions of the agent to the user
handlers            a program's own files and terminals, in place of ours
refusals            the errors that the host answers with
"""
