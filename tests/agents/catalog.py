"""The real agents, as data: what to install, how each is told of the scripted model, and what its tools are called.

Commands come from the presets, so that these are tested too; an agent is found by the PATH that its runs get.
In `env` and `files`, `{url}` is the model server's base and `{home}` the run's own HOME; in `shell`, `{command}` is
replaced by a JSON string.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

from msgspec import Struct

NODE = "node@24.21.0"
"""Several agents need Node 22 or later, and systems have older ones."""

Ending = Literal["goes-on", "end_turn", "cancelled"]


class RealAgent(Struct, frozen=True, kw_only=True):
    id: str  # the preset's
    packages: tuple[str, ...]  # of npm, pinned
    reported: str | None  # the version that the agent itself tells
    env: dict[str, str]
    files: dict[str, str] = {}  # below HOME
    shell: str  # the tool that runs `{command}`, and for which it asks
    writing: str  # the tool that writes the line "written" to the new file `{path}`
    asks: bool = True
    tells_thoughts: bool = True
    tells_tokens: bool | None = True  # by the protocol; None: of its context alone, right after the end of a run
    through_us: tuple[Literal["files", "terminals"], ...] = ()  # what it has us do where we offer it
    writes_unasked: bool = False  # it has us write files where we do not offer it, and then writes by itself
    creates_where_it_reads: bool = True  # a new file can be written where we offer to read files
    command: tuple[str, str] | None = None  # a prompt that is a slash command, and what its answer has in it
    command_files: dict[str, str] = {}  # in the workspace: what defines the command
    mcp_env: dict[str, str] = {}  # without which the model is not shown the tools of MCP servers
    mcp_calling: str = "[[tool:~{tool} {arguments}]]"
    mcp_asks: bool = True  # it asks before it calls the tool of an MCP server
    shows_files: bool = True  # the text of a file in the prompt; else its path
    streams: bool = True
    wrapped: bool = False  # its first process only starts another one, which does the work
    drops_mcp: tuple[Literal["stdio", "http"], ...] = ()  # over these the servers that we name do not reach its model
    after_refusal: Ending = "goes-on"
    model_error: Literal["error", "text"] = "error"  # how it tells of a model's HTTP error
    retries_for_long: bool = False  # on a model's 500, for more than 40 s and in silence
    goes_on_after_question: bool = True  # a session whose question was cancelled takes the next prompt
    load_after: float = 0.0  # a session can be loaded in the clock's next period of so many seconds
    tells_of_refusal: bool = True  # a tool call that was refused is told to have failed

    def run(self, command: str) -> str:
        """Return the directive that makes the agent run a command in its shell."""
        return f"[[tool:{self.shell.replace('{command}', json.dumps(command))}]]"

    def call_mcp(self, server: str, tool: str, arguments: Mapping[str, object]) -> str:
        """Return the directive that makes the agent call the tool of an MCP server, by the agent's name for it."""
        text = self.mcp_calling.replace("{server}", server).replace("{tool}", tool)
        return text.replace("{arguments}", json.dumps(arguments))

    @property
    def searches_tools(self) -> bool:
        """True where the model has to search for the tools of MCP servers, by calls that count as well."""
        return "tool_search" in self.mcp_calling

    def write(self, path: Path) -> str:
        """Return the directive that makes the agent write a new file."""
        return f"[[tool:{self.writing.replace('{path}', json.dumps(str(path)))}]]"


_OPENCODE_MODEL = {
    "reasoning": True,
    "tool_call": True,
    "attachment": True,
    "modalities": {"input": ["text", "image"], "output": ["text"]},
}

_OPENCODE_CONFIG = {
    "model": "scripted/scripted-1",
    "small_model": "scripted/scripted-1",
    "enabled_providers": ["scripted"],
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "Scripted",
            "options": {"baseURL": "{url}/v1", "apiKey": "none"},
            "models": {
                "scripted-1": _OPENCODE_MODEL | {"name": "Scripted 1"},
                "scripted-2": _OPENCODE_MODEL | {"name": "Scripted 2"},
            },
        }
    },
    "permission": {"edit": "ask", "bash": "ask", "webfetch": "ask"},
    "lsp": False,
    "autoupdate": False,
}

_CODEX_CONFIG = """
model = "gpt-5.5"
model_provider = "scripted"
approval_policy = "on-request"
sandbox_mode = "workspace-write"
check_for_update_on_startup = false

[model_providers.scripted]
name = "Scripted"
base_url = "{url}/v1"
wire_api = "responses"
env_key = "OPENAI_API_KEY"
requires_openai_auth = false
request_max_retries = 1
stream_max_retries = 1
supports_websockets = false

[analytics]
enabled = false

[feedback]
enabled = false
"""

_QWEN_SETTINGS = {
    "tools": {"approvalMode": "default"},
    "security": {"auth": {"selectedType": "openai"}},
    "telemetry": {"enabled": False},
    "privacy": {"usageStatisticsEnabled": False},
    "general": {"enableAutoUpdate": False},
    "model": {"generationConfig": {"modalities": {"image": True}}},
}

_KIMI_CONFIG = """
default_model = "scripted"
telemetry = false

[providers.scripted]
type = "openai"
base_url = "{url}/v1"
api_key = "none"

[models.scripted]
provider = "scripted"
model = "scripted-1"
max_context_size = 128000
capabilities = ["thinking", "image_in", "tool_use"]

[models.other]
provider = "scripted"
model = "scripted-2"
max_context_size = 128000
capabilities = ["thinking", "image_in", "tool_use"]
"""

_PI_MODELS = {
    "providers": {
        "scripted": {
            "baseUrl": "{url}/v1",
            "api": "openai-completions",
            "apiKey": "none",
            "models": [
                {"id": "scripted-1", "reasoning": True, "input": ["text", "image"]},
                {"id": "scripted-2", "reasoning": True, "input": ["text", "image"]},
            ],
        }
    }
}

_NANOCODER_PROVIDERS = [
    {"name": "scripted", "baseUrl": "{url}/v1", "apiKey": "none", "models": ["scripted-1", "scripted-2"]}
]

AGENTS = (
    RealAgent(
        id="claude",
        packages=("@agentclientprotocol/claude-agent-acp@0.99.0",),
        reported="0.99.0",
        env={
            "ANTHROPIC_BASE_URL": "{url}",
            "ANTHROPIC_API_KEY": "none",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # else it refuses to run as root
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_MAX_RETRIES": "1",
        },
        shell='Bash {"command": {command}, "description": "run it"}',
        writing='Write {"file_path": {path}, "content": "written\\n"}',
        command=("/hello", "From the command."),
        command_files={".claude/commands/hello.md": "Say hello.\n\n[[say:From the command.]]\n"},
    ),
    RealAgent(
        id="opencode",
        packages=("opencode-ai@1.18.33",),
        reported="1.18.33",
        env={
            "OPENCODE_CONFIG_CONTENT": json.dumps(_OPENCODE_CONFIG),
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
            "OPENCODE_DISABLE_SHARE": "1",
        },
        shell='bash {"command": {command}, "description": "run it"}',
        writing='write {"filePath": {path}, "content": "written\\n"}',
        through_us=("files",),
        writes_unasked=True,
        command=("/hello", "From the command."),
        command_files={".opencode/command/hello.md": "Say hello.\n\n[[say:From the command.]]\n"},
        after_refusal="end_turn",
        retries_for_long=True,
        mcp_asks=False,
    ),
    RealAgent(
        id="codex",
        packages=("@agentclientprotocol/codex-acp@2.6.0", "@openai/codex@0.166.0"),
        reported="2.6.0",
        env={
            "CODEX_HOME": "{home}/.codex",
            "MODEL_PROVIDER": "scripted",
            "INITIAL_AGENT_MODE": "read-only",
            "NO_BROWSER": "1",
            "OPENAI_API_KEY": "none",
        },
        files={".codex/config.toml": _CODEX_CONFIG},
        shell='exec_command {"cmd": {command}, "sandbox_permissions": "require_escalated", "justification": "a test"}',
        writing='apply_patch "*** Begin Patch\\n*** Add File: written.txt\\n+written\\n*** End Patch\\n"',
        command=("/status", "gpt-5.5"),
        mcp_env={"CODEX_CONFIG": '{"model": "scripted-1"}'},
        after_refusal="cancelled",
        model_error="text",
    ),
    RealAgent(
        id="gemini",
        packages=("@google/gemini-cli@0.61.0",),
        reported="0.61.0",
        tells_tokens=False,
        env={
            "GEMINI_API_KEY": "none",
            "GOOGLE_GEMINI_BASE_URL": "{url}",
            "GEMINI_MODEL": "gemini-2.5-flash",
            "GEMINI_CLI_NO_RELAUNCH": "1",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        },
        shell='run_shell_command {"command": {command}, "description": "run it"}',
        writing='write_file {"file_path": {path}, "content": "written\\n"}',
        through_us=("files",),
        creates_where_it_reads=False,
        command=("/about", "0.61.0"),
        load_after=60.0,
        tells_of_refusal=False,
        retries_for_long=True,
    ),
    RealAgent(
        id="goose",
        packages=("@aaif/goose@0.20.1",),
        reported=None,
        env={
            "GOOSE_PROVIDER": "openai",
            "GOOSE_MODEL": "scripted-1",
            "OPENAI_HOST": "{url}",
            "OPENAI_BASE_PATH": "v1/chat/completions",
            "OPENAI_API_KEY": "none",
            "GOOSE_MODE": "approve",
            "GOOSE_DISABLE_KEYRING": "1",
            "GOOSE_TELEMETRY_ENABLED": "false",
        },
        shell='shell|~__shell {"command": {command}}',
        writing='write|~__write {"path": {path}, "content": "written\\n"}',
        through_us=("files", "terminals"),
        model_error="text",
    ),
    RealAgent(
        id="qwen",
        packages=("@qwen-code/qwen-code@0.24.4",),
        reported="0.24.4",
        tells_tokens=False,
        env={"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": "{url}/v1", "OPENAI_MODEL": "scripted-1"},
        files={".qwen/settings.json": json.dumps(_QWEN_SETTINGS)},
        retries_for_long=True,
        shell='run_shell_command {"command": {command}, "description": "run it", "is_background": false}',
        writing='write_file {"file_path": {path}, "content": "written\\n"}',
        command=("/hello", "From the command."),
        mcp_calling='[[tool:tool_search {"query": "select:mcp__{server}__{tool}"}]]'
        '[[tool:tool_call {"name": "mcp__{server}__{tool}", "arguments": {arguments}}]]',
        through_us=("files",),
        wrapped=True,
        command_files={".qwen/commands/hello.md": "Say hello.\n\n[[say:From the command.]]\n"},
        after_refusal="end_turn",
    ),
    RealAgent(
        id="copilot",
        packages=("@github/copilot@1.0.102",),
        reported="1.0.102",
        env={
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": "{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "scripted-1",
        },
        shell='bash {"command": {command}, "description": "run it"}',
        writing='create {"path": {path}, "file_text": "written\\n"}',
        command=("/usage", ""),
        shows_files=False,
        wrapped=True,
        drops_mcp=("stdio",),
        after_refusal="end_turn",
        model_error="text",
    ),
    RealAgent(
        id="kimi",
        packages=("@moonshot-ai/kimi-code@2.1.0",),
        reported="2.1.0",
        tells_tokens=None,
        env={"KIMI_CODE_HOME": "{home}/.kimi-code"},
        files={".kimi-code/config.toml": _KIMI_CONFIG},
        retries_for_long=True,
        shell='Bash {"command": {command}, "description": "run it"}',
        writing='Write {"path": {path}, "content": "written\\n"}',
        through_us=("files", "terminals"),
        command=("/status", ""),
    ),
    RealAgent(
        id="pi",
        packages=("pi-acp@0.0.34", "@earendil-works/pi-coding-agent@0.87.1"),
        reported="0.0.34",
        env={"PI_OFFLINE": "1", "NPM_CONFIG_OFFLINE": "true"},  # its adapter asks npm for the newest version
        files={
            ".pi/agent/models.json": json.dumps(_PI_MODELS),
            ".pi/agent/settings.json": json.dumps({"quietStartup": True}),  # else its first words are about itself
        },
        retries_for_long=True,
        shell='bash {"command": {command}}',
        writing='write {"path": {path}, "content": "written\\n"}',
        asks=False,
        command=("/session", ""),
        drops_mcp=("stdio", "http"),
    ),
    RealAgent(
        id="nanocoder",
        packages=("@nanocollective/nanocoder@1.30.0",),
        reported="1.30.0",
        tells_tokens=False,
        env={"NANOCODER_PROVIDERS": json.dumps(_NANOCODER_PROVIDERS)},
        shell='execute_bash {"command": {command}}',
        writing='write_file {"path": {path}, "content": "written\\n"}',
        streams=False,
        goes_on_after_question=False,
        drops_mcp=("stdio", "http"),
    ),
)
