"""The hub: the sessions of this process, and the journal that they are stored in.

hub            the journal of a home folder, and the sessions that this process owns
owned_session  one of them: its connection, its queue, and the commands sent to it
commands       what other programs may want of a session
prompting      a prompt command as the parts of a prompt
identity       this process, and whether another one lives
"""
