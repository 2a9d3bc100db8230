"""Scenes that act in the workspace, or ask the person. Everything that changes or runs something asks first.

Files and commands go through the client where it offers that; otherwise the agent uses them itself, inside the
workspace. A cancelled run leaves no command running and no terminal open.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections import deque
from pathlib import Path

import msgspec

from dragoman.agents.demo.requests import DOCUMENT, Intent
from dragoman.agents.demo.session import PromptRun, Tool, text_content
from dragoman.errors import NOT_FOUND, DragomanError, RequestFailed
from dragoman.wire import vocabulary as acp

# Of a command's output the end is kept, as ACP's terminals do: that is where it says how it went.
OUTPUT_LIMIT_BYTES = 64 * 1024

# How long we read on after a command has ended and its group is killed; only a daemon that left the group holds the
# pipe open for longer, and its words are not the command's.
OUTPUT_GRACE_S = 1.0

_SHELL_SIGNS = frozenset("|&;<>()$`\\\"'*?[]#~=%!{}\n")


class ActionFailed(Exception):
    """A file or command that cannot be had. The text says what and why."""


class CommandEnd(msgspec.Struct, frozen=True):
    exit_code: int | None
    signal: str | None
    output: str
    truncated: bool


# -- files


def absolute_path(run: PromptRun, path: str) -> str:
    return os.path.normpath(os.path.join(run.session.cwd, os.path.expanduser(path)))


def relative_path(run: PromptRun, path: str) -> str:
    """Return the path relative to the workspace, where it is inside."""
    inside = path.startswith(run.session.cwd.rstrip("/") + "/")
    return os.path.relpath(path, run.session.cwd) if inside else path


async def read_text(run: PromptRun, path: str) -> str | None:
    """Return the file's text; None where there is no such file."""
    if not run.client.fs.read_text_file:
        return _read_own(_inside(run, path))
    try:
        params = acp.ReadTextFileRequest(session_id=run.session.id, path=path)
        return (await run.request("fs/read_text_file", params, acp.ReadTextFileResponse)).content
    except RequestFailed as error:
        # Clients have different words for a missing file, so the file itself is asked too.
        if error.code == NOT_FOUND or not _is_there(path):
            return None
        raise ActionFailed(f"The client could not read {path}: {error}") from None


async def write_text(run: PromptRun, path: str, text: str) -> None:
    if not run.client.fs.write_text_file:
        _write_own(_inside(run, path), text)
        return
    try:
        params = acp.WriteTextFileRequest(session_id=run.session.id, path=path, content=text)
        await run.request("fs/write_text_file", params, acp.WriteTextFileResponse)
    except RequestFailed as error:
        raise ActionFailed(f"The client could not write {path}: {error}") from None


def _is_there(path: str) -> bool:
    return os.path.lexists(path)


def delete_file(run: PromptRun, path: str) -> None:
    """Delete a file. ACP has no method for this: the agent does it itself."""
    target = _inside(run, path)
    try:
        target.unlink()
    except OSError as error:
        raise ActionFailed(f"{path} cannot be deleted: {error.strerror}") from None


def file_exists(run: PromptRun, path: str) -> bool:
    return _inside(run, path).is_file()


def _inside(run: PromptRun, path: str) -> Path:
    """Return the path with its links resolved; raise `ActionFailed` if it is not in the workspace."""
    target = Path(os.path.realpath(path))
    for folder in (run.session.cwd, *run.session.additional_directories):
        if target.is_relative_to(os.path.realpath(folder)):
            return target
    raise ActionFailed(f"{path} lies outside of this session's workspace, {run.session.cwd}")


def _read_own(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError:
        raise ActionFailed(f"{path} is no text file") from None
    except OSError as error:
        raise ActionFailed(f"{path} cannot be read: {error.strerror}") from None


def _write_own(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ActionFailed(f"{path} cannot be written: {error.strerror}") from None


# -- commands


def argv_of(command: str) -> list[str]:
    """Return the program and its arguments; a command with shell syntax runs in a shell."""
    if _SHELL_SIGNS.isdisjoint(command):
        return shlex.split(command)
    return ["sh", "-c", command]


async def run_to_end(run: PromptRun, tool: Tool, command: str) -> CommandEnd:
    """Run the command to its end, shown in the tool call."""
    return await (_run_in_terminal if run.client.terminal else _run_own)(run, tool, argv_of(command))


async def _run_in_terminal(run: PromptRun, tool: Tool, argv: list[str]) -> CommandEnd:
    try:
        terminal_id = await _create_terminal(run, argv)
        tool.progress(acp.Terminal(terminal_id=terminal_id))
        try:
            wait = acp.WaitForTerminalExitRequest(session_id=run.session.id, terminal_id=terminal_id)
            ended = await run.request("terminal/wait_for_exit", wait, acp.WaitForTerminalExitResponse)
            ask = acp.TerminalOutputRequest(session_id=run.session.id, terminal_id=terminal_id)
            output = await run.request("terminal/output", ask, acp.TerminalOutputResponse)
        except asyncio.CancelledError:
            _request_unanswered(
                run, "terminal/kill", acp.KillTerminalRequest(session_id=run.session.id, terminal_id=terminal_id)
            )
            raise
        finally:
            _release(run, terminal_id)
    except RequestFailed as error:
        raise ActionFailed(f"The client's terminal failed: {error}") from None
    return CommandEnd(ended.exit_code, ended.signal, output.output, output.truncated)


async def _create_terminal(run: PromptRun, argv: list[str]) -> str:
    params = acp.CreateTerminalRequest(
        session_id=run.session.id,
        command=argv[0],
        args=tuple(argv[1:]),
        cwd=run.session.cwd,
        output_byte_limit=OUTPUT_LIMIT_BYTES,
    )
    creation = asyncio.ensure_future(run.request("terminal/create", params, acp.CreateTerminalResponse))

    def release_late(done: asyncio.Future[acp.CreateTerminalResponse]) -> None:
        if not done.cancelled() and done.exception() is None:
            _release(run, done.result().terminal_id)

    try:
        return (await asyncio.shield(creation)).terminal_id
    except asyncio.CancelledError:
        # The terminal is being made while we leave: it must not stay behind.
        creation.add_done_callback(release_late)
        raise


def _release(run: PromptRun, terminal_id: str) -> None:
    _request_unanswered(
        run, "terminal/release", acp.ReleaseTerminalRequest(session_id=run.session.id, terminal_id=terminal_id)
    )


def _request_unanswered(run: PromptRun, method: str, params: object) -> None:
    """Send a request without waiting for the answer: the clean-up must not delay the end of a run."""
    try:
        run.connection.call(method, params)
    except DragomanError:
        pass  # the client is gone, and its terminals with it


async def _run_own(run: PromptRun, tool: Tool, argv: list[str]) -> CommandEnd:
    reading, writing = os.pipe()
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    try:
        pipe, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(reading, "rb"))
        try:
            # The pipe is ours and not the process's: else `wait` would also wait for grandchildren that hold it.
            process = await asyncio.create_subprocess_exec(
                *argv,
                cwd=run.session.cwd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=writing,
                stderr=writing,
                start_new_session=True,
            )
        except BaseException:  # a cancelled run, too
            pipe.close()
            raise
    except OSError as error:
        raise ActionFailed(f"{argv[0]} cannot be run: {error.strerror}") from None
    finally:
        os.close(writing)
    tool.progress()
    output = asyncio.ensure_future(_last_of(reader))
    try:
        code = await process.wait()
    finally:
        # At its end and when cancelled: nothing that it started in its group outlives it.
        _kill_group(process.pid)
        try:
            if process.returncode is None:
                await process.wait()
            await asyncio.wait([output], timeout=OUTPUT_GRACE_S)
        finally:
            pipe.close()
    text, truncated = await output
    if code < 0:
        return CommandEnd(None, signal.Signals(-code).name, text, truncated)
    return CommandEnd(code, None, text, truncated)


async def _last_of(reader: asyncio.StreamReader) -> tuple[str, bool]:
    """Return the last `OUTPUT_LIMIT_BYTES` bytes as text, and whether there were more."""
    parts: deque[bytes] = deque()
    size, truncated = 0, False
    while part := await reader.read(OUTPUT_LIMIT_BYTES):
        parts.append(part)
        size += len(part)
        while size - len(parts[0]) >= OUTPUT_LIMIT_BYTES:
            size -= len(parts.popleft())
            truncated = True
    whole = b"".join(parts)
    return whole[-OUTPUT_LIMIT_BYTES:].decode("utf-8", errors="replace"), truncated or size > OUTPUT_LIMIT_BYTES


def _kill_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # nobody is left in it (macOS says so by EPERM)


def shown_output(end: CommandEnd) -> str:
    """Return the last lines of the output as a code block."""
    lines = end.output.rstrip().splitlines()
    if not lines:
        return ""
    head = [f"… {len(lines) - 20} lines above"] if len(lines) > 20 else []
    fence = "```" if "```" not in end.output else "~~~~"
    return "\n".join([fence, *head, *lines[-20:], fence])


# -- scenes

PAGE = "https://agentclientprotocol.com/"
QUESTION = "Which colour do you like best?"  # also in the form
MAX_SHOWN_LINES = 20


async def read_scene(run: PromptRun, intent: Intent) -> None:
    path, text = await _find(run, intent.text)
    name = relative_path(run, path)
    tool = run.tool(f"Read {name}", "read", locations=(acp.ToolCallLocation(path=path),), raw_input={"path": path})
    tool.progress()
    if text is None:
        tool.fail(f"There is no file {path}")
        await run.say(f"There is no file {name} in {run.session.cwd}. `edit {name}` would create it.")
        return
    lines = text.splitlines()
    tool.complete(text_content(text), raw_output={"lines": len(lines), "characters": len(text)})
    shown = "\n".join(lines[:MAX_SHOWN_LINES])
    fence = "```" if "```" not in shown else "~~~~"
    more = f"\n\n… and {len(lines) - MAX_SHOWN_LINES} more lines." if len(lines) > MAX_SHOWN_LINES else ""
    await run.say(f"{name} has {len(lines)} lines:\n\n{fence}\n{shown}\n{fence}{more}")


async def edit_scene(run: PromptRun, intent: Intent) -> None:
    path, old = await _find(run, intent.text)
    name = relative_path(run, path)
    new, line = edited(name, old, intent.line)
    tool = run.tool(
        f"Edit {name}" if old is not None else f"Create {name}",
        "edit",
        acp.Diff(path=path, old_text=old, new_text=new),
        locations=(acp.ToolCallLocation(path=path, line=line),),
        raw_input={"path": path, "line": line},
    )
    if not await run.allowed(tool):
        return
    tool.progress()
    try:
        await write_text(run, path, new)
    except ActionFailed as error:
        tool.fail(str(error))
        await run.say(f"That did not work. {error}")
        return
    tool.complete(raw_output={"characters": len(new)})
    await run.say(f"I {'added a line to' if old is not None else 'created'} {name}.")


def edited(name: str, old: str | None, line: str) -> tuple[str, int]:
    """Return the file with a line appended, or a new file; and the number of that line."""
    if old is None:
        head = f"# {os.path.splitext(os.path.basename(name))[0]}\n\n" if name.endswith(".md") else ""
        old, new_line = head, "This file was created by the Dragoman demo agent."
    else:
        new_line = "This line was added by the Dragoman demo agent."
    if old and not old.endswith("\n"):
        old += "\n"
    return f"{old}{line or new_line}\n", old.count("\n") + 1


async def _find(run: PromptRun, name: str) -> tuple[str, str | None]:
    """Find the file that a name means, also with an ending left out; return its path and text."""
    path = absolute_path(run, name)
    endings = [""] if os.path.splitext(path)[1] else ["", ".md", ".txt"]
    for ending in endings:
        if (text := await read_text(run, path + ending)) is not None:
            return path + ending, text
    return (path + ".md" if os.path.basename(path).upper() == "README" else path), None


async def delete_scene(run: PromptRun, intent: Intent) -> None:
    path = absolute_path(run, intent.text)
    name = relative_path(run, path)
    if not file_exists(run, path):
        await run.say(f"There is no file {name} in {run.session.cwd}.")
        return
    tool = run.tool(f"Delete {name}", "delete", locations=(acp.ToolCallLocation(path=path),), raw_input={"path": path})
    if not await run.allowed(tool):
        return
    tool.progress()
    try:
        delete_file(run, path)
    except ActionFailed as error:
        tool.fail(str(error))
        await run.say(f"That did not work. {error}")
        return
    tool.complete(raw_output={"deleted": path})
    await run.say(f"I deleted {name}.")


async def run_scene(run: PromptRun, intent: Intent) -> None:
    command = intent.text
    tool = run.tool(f"Run `{command}`", "execute", raw_input={"command": command, "cwd": run.session.cwd})
    if not await run.allowed(tool):
        return
    try:
        end = await run_to_end(run, tool, command)
    except ActionFailed as error:
        tool.fail(str(error))
        await run.say(f"That did not work. {error}")
        return
    # A terminal stays on display after its release; without one, the output is the content.
    shown = () if run.client.terminal else (text_content(end.output or "(no output)"),)
    raw = {"exitCode": end.exit_code, "signal": end.signal, "output": end.output, "truncated": end.truncated}
    tool.complete(*shown, raw_output=raw)
    how = f"was ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"
    await run.say(f"`{command}` {how}.")
    if output := shown_output(end):
        await run.say(output)


async def permission_scene(run: PromptRun, intent: Intent) -> None:
    tool = run.tool("Do nothing, with your permission", "other", raw_input={"pretend": True})
    if await run.allowed(tool):
        tool.complete(text_content("Nothing was done"))
        await run.say("You allowed it, and I did nothing, as promised.")


async def ask_scene(run: PromptRun, intent: Intent) -> None:
    if run.client.elicitation is None or run.client.elicitation.form is None:
        run.session.question = QUESTION
        await run.say(f"This client does not offer questions with forms, so I ask in plain text. {QUESTION}")
        return
    form = acp.ElicitationFormMode(
        session_id=run.session.id, message="A few questions, to show the form:", requested_schema=DOCUMENT.form
    )
    answer = await _elicit(run, form)
    match answer:
        case acp.ElicitationAcceptAction(content=content):
            given = "\n".join(f"- {key}: {value}" for key, value in (content or {}).items())
            await run.say(f"Thank you! You answered:\n\n{given or '(nothing)'}")
        case acp.ElicitationDeclineAction():
            await run.say("You would rather not answer. That is fine.")
        case None:
            pass
        case _:
            await run.say("You closed the question without an answer. That is fine.")


async def page_scene(run: PromptRun, intent: Intent) -> None:
    if run.client.elicitation is None or run.client.elicitation.url is None:
        await run.say(f"This client does not open pages for agents. The page is {PAGE}")
        return
    elicitation = run.session.next_id("page")
    shown = acp.ElicitationUrlMode(
        session_id=run.session.id,
        elicitation_id=elicitation,
        url=PAGE,
        message="The protocol that we speak is described here.",
    )
    match await _elicit(run, shown):
        case acp.ElicitationAcceptAction():
            done = acp.CompleteElicitationNotification(elicitation_id=elicitation)
            run.connection.notify("elicitation/complete", done)
            await run.say("You opened the page.")
        case None:
            pass
        case _:
            await run.say("You did not open the page. That is fine.")


async def _elicit(
    run: PromptRun, question: acp.ElicitationFormMode | acp.ElicitationUrlMode
) -> acp.CreateElicitationResponse | None:
    """Return the answer; None if the client failed to ask, which the agent then says."""
    try:
        return await run.elicit(question)
    except RequestFailed as error:
        await run.say(f"The client could not ask you: {error}")
        return None
