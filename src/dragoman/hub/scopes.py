"""Scopes: what a client needs the scope `admin` for, beyond the scope that its request declares.

A request declares the scope that it needs (`protocol.requests`). These checks look further: at the values in it, and at
the session that it is for. The hub makes them for every client, whichever way its request came in: by HTTP, by a socket
or through the journal's inbox.

Promised: with the scope `prompt` nobody opens a session in a folder that nobody with `admin` has opened or configured;
nor in one whose files are always asked about (`.git`); has an agent act with more than the configured access, in a mode
in which it does not ask, or where it could change our home folder; sends it a command that changes what it asks about;
allows what always needs approval, or a file outside the workspace; or has an answer remembered.

Not promised: what a command does once it was allowed. It has all rights of the user's account, and only a sandbox
limits it.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, assert_never

import msgspec

from dragoman.agents.preset import load_preset
from dragoman.config import ACCESS, Config, load
from dragoman.errors import InputError, ScopeMissing
from dragoman.host.permission import PermissionAnswer
from dragoman.host.policy.effects import resolve_path
from dragoman.host.policy.globs import fold
from dragoman.host.policy.guards import default_guards, user_guards
from dragoman.host.policy.rulebook import read_refusal, rule_sources
from dragoman.hub.commands import Command, GitActionNoted, reply_to
from dragoman.journal.rows import Session as SessionRow
from dragoman.protocol import requests
from dragoman.protocol.messages import Scope, includes
from dragoman.protocol.requests import Isolation
from dragoman.protocol.worktrees import WorktreeChoice
from dragoman.record import rows
from dragoman.session.options import SessionConfig, StoredSettings
from dragoman.session.session import Session
from dragoman.workspace import OutsideWorkspace, Workspace
from dragoman.workspace.worktree_store import WorktreeStore, worktree_settings

# Categories of settings that do not change what an agent asks about.
FREE_CATEGORIES: Final = frozenset({"model", "thought_level", "model_config"})

# Words in the names of agents' own commands (`/allow-all`, `/approval-mode`, `/mcp`) that change what the agent asks
# about, where it works, or which programs it starts.
_POWERFUL_WORDS: Final = frozenset(
    {
        *("allow", "allowed", "approval", "approvals", "approve", "auto", "autopilot", "bypass", "permission"),
        *("permissions", "trust", "yolo", "sandbox", "mode", "modes", "dir", "directory", "cd", "cwd", "workspace"),
        *("mcp", "extension", "extensions", "plugin", "plugins", "hook", "hooks", "config", "configure", "settings"),
        *("login", "logout", "auth", "tools", "shell", "bash", "sh", "exec", "run", "terminal", "env"),
    }
)
# The byte order mark is a space to JavaScript, in which many agents are written.
_SLASH_COMMAND: Final = re.compile(r"[\s\ufeff]*/([^\s/]+)(?:\s|$)")
_SHELL_COMMAND: Final = re.compile(r"[\s\ufeff]*!")

_GUIDANCE: Final = "Ask somebody who has a token with the scope admin."


def require_admin(scope: Scope, reason: str | None, guidance: str = _GUIDANCE) -> None:
    """Raise `ScopeMissing` where there is a reason, and the scope is not `admin`."""
    if reason is not None and not includes(scope, "admin"):
        raise ScopeMissing(
            f"{reason}; that needs a token with the scope admin, this one has {scope}", guidance=guidance
        )


# -- opening sessions


def opening_reason(agent: str | None, session: SessionConfig, config: Config) -> str | None:
    """Return why opening such a session needs `admin`; None where it does not."""
    if agent is not None and "://" in agent and agent != config.agent:
        return "the agent is at an address of the client's choice"
    asks_in = _asks_in(agent or config.agent, config) if session.mode or session.options else {}
    chosen: dict[str, str | bool] = {**session.options, **({"mode": session.mode} if session.mode else {})}
    for option_id, value in chosen.items():
        if value not in asks_in.get(option_id, ()):
            return _not_asking(option_id, value)
    if isinstance(session.worktree, WorktreeChoice) and session.worktree.setup:
        return "the setup command of a worktree runs without asking"
    if session.checkpoints is False and config.checkpoints:
        return "without checkpoints nobody could take back what the agent changes"
    if session.system_prompt and (reason := _text_reason(session.system_prompt)):
        return reason  # where the agent takes no system prompt, it is the beginning of the first prompt
    if config.isolation and session.isolation not in (None, Isolation()):
        return "agents are isolated here, and this one would have more of the user's"
    return session_reason(session, session.workspace.folders, config)


def session_reason(stored: StoredSettings, folders: Iterable[Path], config: Config) -> str | None:
    """Return why acting in a session with these settings needs `admin`, whatever its agent is set to."""
    if ACCESS.index(stored.access) > ACCESS.index(config.access):
        return f"the session's access is {stored.access!r}, more than the configured {config.access!r}"
    if stored.network or stored.web_search:
        return "the session may use the network without asking"
    if config.sandbox != "off" and stored.sandbox not in (None, config.sandbox):
        return f"the session's sandbox is {stored.sandbox!r}, not the configured {config.sandbox!r}"
    home = _folded(os.path.realpath(config.home))
    for folder in map(_folded, folders):
        if home.is_relative_to(folder) or folder.is_relative_to(home):
            return f"the session's workspace overlaps {config.home}, where Dragoman stores its tokens and rules"
    return None


def folder_reason(folders: Sequence[str | Path], sessions: Iterable[SessionRow], config: Config) -> str | None:
    """Return why a session in these folders needs `admin`; None in and below folders that an admin chose.

    Not below one whose files are always asked about: as a workspace of its own, nothing in it would be.
    """
    chosen = {_real(folder) for folder in config.folders}
    for row in sessions:
        # Imported sessions and sub-agents have the folder that their agent says.
        if not row.imported and row.parent is None and row.handle is not None and _opened_by_admin(row.handle):
            chosen.update(checkout_folder(Path(folder), config) for folder in (row.cwd, *row.folders))
    for folder in folders:
        real = _real(folder)
        real = None if real is None else checkout_folder(real, config)
        above = [each for each in chosen if each is not None and real is not None and real.is_relative_to(each)]
        if real is None or not above:
            return f"nobody with the scope admin has opened a session in {folder}, or configured it"
        reasons = [_guard_reason(real, each, config) for each in above]
        if all(reasons):  # an admin may have chosen such a folder itself
            return f"the files in {folder} always need approval: {reasons[0]}"
    return None


def checkout_folder(folder: Path, config: Config) -> Path:
    """Return the folder of the checkout that a folder in a worktree of ours stands for; any other folder as it is."""
    settings = worktree_settings(config)
    if folder.is_relative_to(os.path.realpath(settings.folder)):
        for record in WorktreeStore(settings).records():
            if folder.is_relative_to(record.folder):
                return Path(record.checkout) / folder.relative_to(record.folder)
    return folder


def _guard_reason(folder: Path, above: Path, config: Config) -> str | None:
    """Return why the files of a folder are always asked about in a workspace above it; None where they are not."""
    if folder == above:
        return None
    try:
        path = resolve_path(str(folder / "file"), Workspace(above))
    except InputError:  # it is gone
        return None
    guards = user_guards(config) or default_guards()
    return guards.reason_to_ask_before_write(path) or guards.reason_to_ask_before_read(path)


class _OpenedBy(msgspec.Struct, frozen=True):
    opened_by: Scope = "admin"


def _opened_by_admin(handle: str) -> bool:
    try:
        return msgspec.json.decode(handle, type=_OpenedBy).opened_by == "admin"
    except msgspec.MsgspecError:
        return False


def _real(folder: str | Path) -> Path | None:
    try:
        return Path(os.path.realpath(os.path.expanduser(folder)))
    except (OSError, ValueError):  # characters that no folder's name can have
        return None


def _folded(path: str | Path) -> Path:
    """Return the path as file systems compare it that ignore case."""
    return Path(fold(str(path)))


# -- acting in a session


def check_command(session: Session, command: Command, scope: Scope, home: Path) -> None:
    """Raise `ScopeMissing` where a client with this scope may not do this in this session. `home`: our own folder."""
    if includes(scope, "admin"):
        return
    config = load(home)
    match command:
        case requests.SessionPrompt(text=text, attachments=attachments):
            require_admin(scope, acting_reason(session, config), _ways_back(session, config))
            require_admin(scope, _text_reason(text))
            require_admin(scope, _attachments_reason(session.config.workspace, attachments, config))
        case requests.QueueEdit(text=text):
            require_admin(scope, acting_reason(session, config), _ways_back(session, config))
            require_admin(scope, _text_reason(text))
        case requests.QuestionAnswer(action="accept"):
            require_admin(scope, acting_reason(session, config), _ways_back(session, config))
        case requests.PermissionAnswer():
            require_admin(scope, _answer_reason(session, command))
        case requests.SessionSetOption(option_id=option_id, value=value):
            require_admin(scope, _setting_reason(session, session.fold.settings.get(option_id), value, config))
        case requests.CheckpointRewind():
            require_admin(scope, "a rewind overwrites files, and no rule judges which")
        case GitActionNoted():
            require_admin(scope, "it records what Dragoman itself did")
        case requests.SessionSetMode(mode=mode):
            require_admin(scope, _setting_reason(session, session.fold.setting("mode"), mode, config))
        case (
            requests.SessionCancel()
            | requests.SessionClose()
            | requests.QueueMove()
            | requests.QueueSend()
            | requests.QueueRemove()
            | requests.QuestionAnswer()
        ):
            pass  # a prompt is checked once more when it is sent
        case _:
            assert_never(command)


def acting_reason(session: Session, config: Config) -> str | None:
    """Return why having the agent of this session act needs `admin`; None where it does not."""
    if reason := session_reason(session.config, session.config.workspace.folders, config):
        return reason
    asks_in = _asks_in(session.spec.preset, config)
    initial = session.fold.initial_values
    for setting in session.fold.settings.values():
        # Of an option that nobody has described and that the agent did not begin with, nobody knows what it does.
        is_known = setting.category == "mode" or _key(setting) in asks_in or setting.id in initial
        if is_known and setting.current is not None and not _asks(setting, setting.current, asks_in, initial):
            return _not_asking(setting.id, setting.current)
    return None


def _text_reason(text: str) -> str | None:
    """Return why the text of a prompt needs `admin`: agents carry out some texts themselves, and ask nobody."""
    if _SHELL_COMMAND.match(text):
        return "some agents run what follows `!` as a command, without asking"
    if (found := _SLASH_COMMAND.match(text)) and not _POWERFUL_WORDS.isdisjoint(re.split(r"[\W_]+", found[1].lower())):
        return f"with /{found[1]} the agent may act without asking, elsewhere, or with other programs"
    return None


def _setting_reason(session: Session, setting: rows.Setting | None, value: str | bool, config: Config) -> str | None:
    if setting is None or (setting.choices and all(choice.value != value for choice in setting.choices)):
        return None  # what does not exist is refused for that
    asks_in = _asks_in(session.spec.preset, config)
    return None if _asks(setting, value, asks_in, session.fold.initial_values) else _not_asking(setting.id, value)


def _asks(
    setting: rows.Setting,
    value: str | bool,
    asks_in: Mapping[str, Sequence[str]],
    initial: Mapping[str, str | bool | None],
) -> bool:
    """Return whether the agent still asks with this value: it is listed, or what the agent itself begins with."""
    if setting.category in FREE_CATEGORIES:
        return True
    return value in asks_in.get(_key(setting), ()) or (setting.id in initial and value == initial[setting.id])


def _key(setting: rows.Setting) -> str:
    return "mode" if setting.category == "mode" else setting.id


def _asks_in(agent: str | None, config: Config) -> Mapping[str, Sequence[str]]:
    try:
        return load_preset(agent, config).asks_in if agent is not None else {}
    except InputError:  # it was removed; or opening the session reports it
        return {}


def _not_asking(option_id: str, value: str | bool) -> str:
    return f"with {option_id} = {value!r} the agent may act without asking"


def _ways_back(session: Session, config: Config) -> str:
    modes = _asks_in(session.spec.preset, config).get("mode", ())
    choices = [mode for mode in modes if any(choice.value == mode for choice in _mode_choices(session))]
    return f"{_GUIDANCE} Its mode may be set to: {', '.join(choices)}." if choices else _GUIDANCE


def _mode_choices(session: Session) -> Sequence[rows.Choice]:
    setting = session.fold.setting("mode")
    return setting.choices if setting is not None else ()


def _answer_reason(session: Session, command: requests.PermissionAnswer) -> str | None:
    request = session.permission_request(command.permission_id)
    if request is None:
        return None  # it has its answer, and this one changes nothing
    answer = reply_to(session, command)
    if not isinstance(answer, PermissionAnswer):
        return None
    if answer.always:
        return "an answer for the future is a rule"
    if answer.outcome != "selected":
        return None
    options = [option for option in request.options if option.id == answer.option_id]
    if options and all(option.rejects for option in options):
        return None
    if not options or any(option.kind != "allow_once" for option in options):
        return "this answer allows more than this one request"
    return session.admin_reason(request)


# -- reading files


def reading_reason(path: Path, workspace: Workspace, config: Config) -> str | None:
    """Return why reading a file of a workspace needs `admin`: a rule denies it, or asks for each time."""
    return read_refusal(rule_sources(config).read(workspace).policy("ask"), path, workspace)


def _attachments_reason(workspace: Workspace, attachments: Iterable[requests.Attachment], config: Config) -> str | None:
    for attachment in attachments:
        if isinstance(attachment, requests.AttachedFile):
            with contextlib.suppress(OutsideWorkspace):  # it is refused for that
                path = workspace.resolve(os.path.join(workspace.cwd, attachment.path))
                if reason := reading_reason(path, workspace, config):
                    return reason
    return None


def check_attachment(path: Path, *, workspace: Workspace, scope: Scope, home: Path) -> None:
    """Raise `ScopeMissing` where a client with this scope may not attach a file of the workspace to a prompt."""
    if not includes(scope, "admin"):
        require_admin(scope, reading_reason(path, workspace, load(home)))
