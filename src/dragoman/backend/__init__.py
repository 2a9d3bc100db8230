"""The backend adapter: an agent behind the few words that coding-agent front ends speak.

adapter      `BackendAdapter`: which agent; `connect` opens a session with it
session      `BackendSession`: `send`, `messages`, `close`
stream       the messages that wait for the front end, in bounded memory
questions    permission requests that wait for the front end's answer
tap          the frames of a link, shown in passing
compose      the messages that a front end sends, made in one line each

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
from dragoman.backend.compose import configuration_change as configuration_change
from dragoman.backend.compose import interrupt as interrupt
from dragoman.backend.compose import permission_response as permission_response
from dragoman.backend.compose import user_message as user_message
from dragoman.backend.messages import UnifiedMessage as UnifiedMessage
from dragoman.backend.messages import read_message as read_message
from dragoman.backend.session import BackendSession as BackendSession
from dragoman.host.handlers import FileHandler as FileHandler
from dragoman.host.handlers import TerminalHandler as TerminalHandler
