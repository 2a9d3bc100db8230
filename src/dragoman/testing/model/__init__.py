"""A model server that does as the prompt says: for tests of agents, with no account and no network but loopback.

script              the directives, `[[say:…]] [[tool:NAME {…}]] …`, read from text
conversation        what a request says, whichever API it came by
reply               which part of the script answers it
openai_chat, openai_responses, anthropic, gemini    the APIs: a request read, a reply written
sse, content        what these share
routes              from a path to its API
http, server        the thin shell

    async with await serve() as server:
        start_agent(env={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"})

It keeps nothing between requests: the same request gets the same bytes, and sessions can run side by side.
"""

from __future__ import annotations

from dragoman.testing.model.server import Seen, Server, main, serve

__all__ = ["Seen", "Server", "main", "serve"]
