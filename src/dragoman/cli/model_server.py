"""`dragoman model-server`: the scripted model server, from the command line."""

from __future__ import annotations

import click

from dragoman.cli.options import Number

EPILOG = """\b
Examples:
  dragoman model-server --port 8080
  ANTHROPIC_BASE_URL=http://127.0.0.1:8080 ANTHROPIC_API_KEY=none \\
    dragoman run -a claude "[[think:let me see]] [[say:All done.]]"

The prompt is the script: `[[say:TEXT]]`, `[[think:TEXT]]`, `[[tool:NAME {…}]]`,
`[[slow:N:S]]`, `[[http:500]]`, `[[hang:S]]` and more. See docs/model-server.md."""


@click.command("model-server", epilog=EPILOG)
@click.option(
    "--host", metavar="ADDRESS", default="127.0.0.1", show_default=True, help="Loopback address to listen on."
)
@click.option("--port", metavar="PORT", type=Number(0, 65535), default=0, help="Port. [default: any free one]")
@click.option("--script-all", is_flag=True, help="Also script requests without tools (titles, summaries).")
@click.option("--quiet", "-q", is_flag=True, help="Do not print a line per request.")
def model_server(host: str, port: int, script_all: bool, quiet: bool) -> int:
    """Run a scripted model server for tests, with the APIs of OpenAI, Anthropic and Gemini, until interrupted.

    It prints its base URL, and needs neither a model nor a network.
    """
    from dragoman.testing.model.server import run_until_interrupted

    return run_until_interrupted(host, port, script_all=script_all, quiet=quiet)
