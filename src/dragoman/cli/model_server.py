"""`dragoman model-server`: the scripted model server, from the command line."""

from __future__ import annotations

import click

EPILOG = """\b
Examples:
  dragoman model-server --port 8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=none \\
    dragoman run -a claude "[[think:let me see]] [[say:All done.]]"

It does as the prompt says: `[[say:TEXT]]`, `[[think:TEXT]]`, `[[tool:NAME {…}]]`,
`[[slow:N:S]]`, `[[http:500]]`, `[[hang:S]]` and more; docs/model-server.md has them all."""


@click.command(
    "model-server",
    epilog=EPILOG,
    short_help="A model that does as the prompt says, for tests of agents.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="A loopback address.")
@click.option("--port", type=click.IntRange(0, 65535), default=0, help="The port; any free one by default.")
@click.option("--script-all", is_flag=True, help="Script requests that offer no tools, too (titles, summaries).")
@click.option("--quiet", "-q", is_flag=True, help="Print no line for each request.")
def model_server(host: str, port: int, script_all: bool, quiet: bool) -> int:
    """Serve scripted answers by the APIs of OpenAI, Anthropic and Gemini, until interrupted.

    Prints its base URL. Needs no model and no network but loopback: for testing agents.
    """
    from dragoman.testing.model.server import main

    arguments = ["--host", host, "--port", str(port)]
    arguments += ["--script-all"] * script_all + ["--quiet"] * quiet
    return main(arguments)
