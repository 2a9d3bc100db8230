"""Settings that are changed by a program: `settings.json` in the home folder, for the page and `dragoman config`.

`config.toml` belongs to the user and is never written. A change that would make a setting invalid is refused; a setting
that is invalid already does not stand in the way of changing another one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from dragoman.config import SETTINGS_FILE, Config, PageSettings, SkillState, load
from dragoman.errors import ConfigError
from dragoman.fileio import LockedJsonFile

DESCRIPTIONS: Final = {
    "agent": "Agent of a new session.",
    "access": "What a new session may do without asking.",
    "sandbox": "Sandbox in which the kernel confines an agent: off, auto, or a mechanism.",
    "sandbox_network": "Network in a sandbox: on, off, or the hosts that rules allow.",
    "start_timeout": "Time limit for starting an agent.",
    "request_timeout": "Time limit for an agent's answer to a request.",
    "cancel_timeout": "Time that an agent has to stop after a cancel.",
    "close_timeout": "Time that an agent has to exit.",
    "deadline": "Time limit for a run.",
    "idle_limit": "Time limit for an agent's silence during a run.",
    "permission_timeout": "Time limit for answering a permission; after it, the permission is denied.",
    "journal": "Record what the command line runs.",
    "checkpoints": "Record the workspace before and after each run.",
    "checkpoint_file_limit": "Largest file in a checkpoint.",
    "checkpoint_age": "Age at which checkpoints are removed.",
    "checkpoint_size": "Size of a folder's checkpoints over which the oldest are removed.",
    "isolation": "Give every agent a HOME and an environment of its own.",
    "line_limit": "Longest line that an agent may send.",
    "skills_folders": "Folders with skills, in the workspace and in your home folder.",
    "skills_budget": "Longest text of skills that goes with a prompt.",
    "prompts_folders": "Folders with prompt templates, in the workspace and in your home folder.",
    "custom_instructions": "Text that goes before each prompt.",
}


def page_settings(home: Path) -> LockedJsonFile[PageSettings]:
    return LockedJsonFile(home / SETTINGS_FILE, PageSettings())


def change_settings(
    home: Path,
    decide: Callable[[PageSettings], PageSettings],
    check: Callable[[Config], object] = lambda config: None,
) -> Config:
    """Change the settings file and return the new configuration.

    Raises `ConfigError`, or what `check` raises, when the settings could not be used. Nothing is written then: an
    unreadable file would stop everything.
    """
    configs: list[Config] = []

    def checked(settings: PageSettings) -> PageSettings:
        try:
            # As it will be read from the file.
            new = msgspec.json.decode(msgspec.json.encode(decide(settings)), type=PageSettings)
        except (msgspec.MsgspecError, ValueError, OverflowError, RecursionError) as error:
            raise ConfigError(f"these settings cannot be stored: {error}") from None
        errors_before: list[ConfigError] = []
        load(home, page=settings, on_error=errors_before.append)
        errors: list[ConfigError] = []
        configs.append(load(home, page=new, on_error=errors.append))
        for new_error in errors:
            if str(new_error) not in map(str, errors_before):
                raise new_error
        check(configs[-1])
        return new

    page_settings(home).change(checked)
    return configs[-1]


def with_setting(page: PageSettings, name: str, value: str | bool | int | float | None) -> PageSettings:
    """Return the settings with one of them set; None removes it."""
    settings = {key: old for key, old in page.settings.items() if key != name}
    if value is not None:
        settings[name] = value
    return msgspec.structs.replace(page, settings=settings)


def with_skill_state(page: PageSettings, path: str, state: SkillState | None) -> PageSettings:
    """Return the settings with the state of the skill in this file; None removes it."""
    skills = {key: old for key, old in page.skills.items() if key != path}
    if state is not None:
        skills[path] = state
    return msgspec.structs.replace(page, skills=skills)
