"""The backend adapter: an agent behind the unified messages that front ends for coding agents speak.

adapter      `BackendAdapter`: which agent; `connect` opens a session with it
session      `BackendSession`: `send`, `messages`, `close`; a view over a session
view         the session's frames and events as messages
stream       the messages that wait for the front end, in bounded memory
messages     the message type, and the messages that a front end sends

    from dragoman.backend import BackendAdapter, user_message

    async with await BackendAdapter("claude").connect("repo") as session:
        await session.send(user_message("Fix the failing test"))
        async for message in session.messages:
            print(message.type, message.content)
            if message.type == "result":
                break
"""

from dragoman.backend.adapter import BackendAdapter as BackendAdapter
from dragoman.backend.adapter import BackendCapabilities as BackendCapabilities
from dragoman.backend.messages import UnifiedMessage as UnifiedMessage
from dragoman.backend.messages import configuration_change as configuration_change
from dragoman.backend.messages import interrupt as interrupt
from dragoman.backend.messages import permission_response as permission_response
from dragoman.backend.messages import read_message as read_message
from dragoman.backend.messages import user_message as user_message
from dragoman.backend.session import BackendSession as BackendSession
from dragoman.host.handlers import FileHandler as FileHandler
from dragoman.host.handlers import TerminalHandler as TerminalHandler
