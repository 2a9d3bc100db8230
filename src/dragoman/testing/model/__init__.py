"""A scripted model server for tests of agents: no account, and no network but loopback.

script        the directives, `[[say:…]] [[tool:NAME {…}]] …`, read from text
conversation  a request, independent of its API, and the part of the script that answers it
openai_chat, openai_responses, anthropic, gemini    the APIs: decode a request, encode a reply
server        from a path to its API; the HTTP server (starlette on uvicorn)

    async with await serve() as server:
        start_agent(env={"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "none"})

The server keeps nothing between requests: the same request gets the same bytes, and sessions can run side by side.
"""

from __future__ import annotations

from dragoman.testing.model.server import SeenRequest, Server, serve

__all__ = ["SeenRequest", "Server", "serve"]
