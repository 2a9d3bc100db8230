"""Scenes that act in the workspace, or ask the person. Everything that changes or runs something asks first."""

from __future__ import annotations

import os

from dragoman.agents.demo import hands
from dragoman.agents.demo.hands import CannotDo
from dragoman.agents.demo.requests import Intent
from dragoman.agents.demo.turn import Turn, text_content
from dragoman.errors import RequestFailed
from dragoman.wire import vocabulary
from dragoman.wire.vocabulary import (
    BooleanPropertySchema,
    CompleteElicitationNotification,
    Diff,
    ElicitationAcceptAction,
    ElicitationDeclineAction,
    ElicitationFormMode,
    ElicitationSchema,
    ElicitationUrlMode,
    EnumOption,
    IntegerPropertySchema,
    MultiSelectPropertySchema,
    StopReason,
    StringMultiSelectItems,
    StringPropertySchema,
    ToolCallLocation,
)

PAGE = "https://agentclientprotocol.com/"
QUESTION = "Which colour do you like best?"
SHOWN_LINES = 20


async def read(turn: Turn, intent: Intent) -> StopReason | None:
    path, text = await _find(turn, intent.text)
    name = hands.relative(turn, path)
    tool = turn.tool(f"Read {name}", "read", locations=(ToolCallLocation(path=path),), raw_input={"path": path})
    tool.progress()
    if text is None:
        tool.fail(f"There is no file {path}")
        await turn.say(f"There is no file {name} in {turn.session.cwd}. `edit {name}` would create it.")
        return None
    lines = text.splitlines()
    tool.complete(text_content(text), raw_output={"lines": len(lines), "characters": len(text)})
    shown = "\n".join(lines[:SHOWN_LINES])
    fence = "```" if "```" not in shown else "~~~~"
    more = f"\n\n… and {len(lines) - SHOWN_LINES} more lines." if len(lines) > SHOWN_LINES else ""
    await turn.say(f"{name} has {len(lines)} lines:\n\n{fence}\n{shown}\n{fence}{more}")
    return None


async def edit(turn: Turn, intent: Intent) -> StopReason | None:
    path, old = await _find(turn, intent.text)
    name = hands.relative(turn, path)
    new, line = edited(name, old, intent.line)
    tool = turn.tool(
        f"Edit {name}" if old is not None else f"Create {name}",
        "edit",
        Diff(path=path, old_text=old, new_text=new),
        locations=(ToolCallLocation(path=path, line=line),),
        raw_input={"path": path, "line": line},
    )
    if not await turn.allowed(tool):
        return None
    tool.progress()
    try:
        await hands.write_text(turn, path, new)
    except CannotDo as problem:
        tool.fail(str(problem))
        await turn.say(f"That did not work. {problem}")
        return None
    tool.complete(raw_output={"characters": len(new)})
    await turn.say(f"I {'added a line to' if old is not None else 'created'} {name}.")
    return None


def edited(name: str, old: str | None, line: str) -> tuple[str, int]:
    """The file with a line appended, or a new one; and that line's number."""
    if old is None:
        head = f"# {os.path.splitext(os.path.basename(name))[0]}\n\n" if name.endswith(".md") else ""
        old, said = head, "This file was created by the Dragoman demo agent."
    else:
        said = "This line was added by the Dragoman demo agent."
    if old and not old.endswith("\n"):
        old += "\n"
    return f"{old}{line or said}\n", old.count("\n") + 1


async def _find(turn: Turn, name: str) -> tuple[str, str | None]:
    """The file that a name means, and its text: as named, else with the endings that people leave out."""
    path = hands.absolute(turn, name)
    endings = [""] if os.path.splitext(path)[1] else ["", ".md", ".txt"]
    for ending in endings:
        if (text := await hands.read_text(turn, path + ending)) is not None:
            return path + ending, text
    return (path + ".md" if os.path.basename(path).upper() == "README" else path), None


async def delete(turn: Turn, intent: Intent) -> StopReason | None:
    path = hands.absolute(turn, intent.text)
    name = hands.relative(turn, path)
    if not hands.exists(turn, path):
        await turn.say(f"There is no file {name} in {turn.session.cwd}.")
        return None
    tool = turn.tool(f"Delete {name}", "delete", locations=(ToolCallLocation(path=path),), raw_input={"path": path})
    if not await turn.allowed(tool):
        return None
    tool.progress()
    try:
        hands.delete(turn, path)
    except CannotDo as problem:
        tool.fail(str(problem))
        await turn.say(f"That did not work. {problem}")
        return None
    tool.complete(raw_output={"deleted": path})
    await turn.say(f"I deleted {name}.")
    return None


async def run(turn: Turn, intent: Intent) -> StopReason | None:
    command = intent.text
    tool = turn.tool(f"Run `{command}`", "execute", raw_input={"command": command, "cwd": turn.session.cwd})
    if not await turn.allowed(tool):
        return None
    try:
        end = await hands.run(turn, tool, command)
    except CannotDo as problem:
        tool.fail(str(problem))
        await turn.say(f"That did not work. {problem}")
        return None
    # A terminal stays on display after its release; without one, the output is the content.
    shown = () if turn.client.terminal else (text_content(end.output or "(no output)"),)
    raw = {"exitCode": end.exit_code, "signal": end.signal, "output": end.output, "truncated": end.truncated}
    tool.complete(*shown, raw_output=raw)
    how = f"was ended by {end.signal}" if end.signal else f"ended with exit code {end.exit_code}"
    await turn.say(f"`{command}` {how}.")
    if output := hands.shown_output(end):
        await turn.say(output)
    return None


async def permission(turn: Turn, intent: Intent) -> StopReason | None:
    tool = turn.tool("Do nothing, with your permission", "other", raw_input={"pretend": True})
    if await turn.allowed(tool):
        tool.complete(text_content("Nothing was done"))
        await turn.say("You allowed it, and I did nothing, as promised.")
    return None


async def ask(turn: Turn, intent: Intent) -> StopReason | None:
    if turn.client.elicitation is None or turn.client.elicitation.form is None:
        turn.session.question = QUESTION
        await turn.say(f"This client does not offer questions with forms, so I ask in plain text. {QUESTION}")
        return None
    form = ElicitationFormMode(
        session_id=turn.session.id, message="A few questions, to show the form:", requested_schema=FORM
    )
    answer = await _elicit(turn, form)
    match answer:
        case ElicitationAcceptAction(content=content):
            given = "\n".join(f"- {key}: {value}" for key, value in (content or {}).items())
            await turn.say(f"Thank you! You answered:\n\n{given or '(nothing)'}")
        case ElicitationDeclineAction():
            await turn.say("You would rather not answer. That is fine.")
        case None:
            pass
        case _:
            await turn.say("You closed the question without an answer. That is fine.")
    return None


FORM = ElicitationSchema(
    title="About you",
    properties={
        "colour": StringPropertySchema(
            title=QUESTION,
            one_of=(
                EnumOption(const="red", title="Red"),
                EnumOption(const="green", title="Green"),
                EnumOption(const="blue", title="Blue"),
            ),
        ),
        "name": StringPropertySchema(title="What may I call you?", max_length=80),
        "files": IntegerPropertySchema(title="How many files do you have open?", minimum=0, maximum=10_000, default=1),
        "languages": MultiSelectPropertySchema(
            title="Which languages do you use?", items=StringMultiSelectItems(enum=("Python", "TypeScript", "Rust"))
        ),
        "happy": BooleanPropertySchema(title="Is all well?", default=True),
    },
    required=("colour",),
)


async def page(turn: Turn, intent: Intent) -> StopReason | None:
    if turn.client.elicitation is None or turn.client.elicitation.url is None:
        await turn.say(f"This client does not open pages for agents. The page is {PAGE}")
        return None
    elicitation = turn.session.next_id("page")
    shown = ElicitationUrlMode(
        session_id=turn.session.id,
        elicitation_id=elicitation,
        url=PAGE,
        message="The protocol that we speak is described here.",
    )
    match await _elicit(turn, shown):
        case ElicitationAcceptAction():
            done = CompleteElicitationNotification(elicitation_id=elicitation)
            turn.connection.notify("elicitation/complete", done)
            await turn.say("You opened the page.")
        case None:
            pass
        case _:
            await turn.say("You did not open the page. That is fine.")
    return None


async def _elicit(
    turn: Turn, question: ElicitationFormMode | ElicitationUrlMode
) -> vocabulary.CreateElicitationResponse | None:
    """The answer; None when the client failed to ask, which is then said."""
    try:
        return await turn.elicit(question)
    except RequestFailed as problem:
        await turn.say(f"The client could not ask you: {problem}")
        return None
