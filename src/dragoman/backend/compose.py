"""The messages that a front end sends, made in one line each."""

from __future__ import annotations

import time
import uuid
from typing import Any, Literal

from dragoman.backend.messages import Fields, MessageType, Role, UnifiedMessage


def user_message(*content: str | Fields) -> UnifiedMessage:
    """A prompt: texts, and content blocks as ACP has them. A slash command is a text that begins with its name."""
    blocks = (part if isinstance(part, dict) else {"type": "text", "text": part} for part in content)
    return _message("user_message", "user", tuple(blocks), {})


def permission_response(
    request: UnifiedMessage | str, behavior: Literal["allow", "deny"], *, option_id: str | None = None
) -> UnifiedMessage:
    """The answer to a permission_request, or to its `request_id`; by one of the agent's options, where it is named."""
    request_id = request if isinstance(request, str) else request.metadata["request_id"]
    chosen = {} if option_id is None else {"optionId": option_id}
    return _message("permission_response", "user", (), {"request_id": request_id, "behavior": behavior, **chosen})


def interrupt() -> UnifiedMessage:
    return _message("interrupt", "user", (), {})


def configuration_change(*, model: str | None = None, mode: str | None = None) -> UnifiedMessage:
    wanted = {"model": model, "modeId": mode}
    return _message(
        "configuration_change", "user", (), {key: value for key, value in wanted.items() if value is not None}
    )


def _message(type_: MessageType, role: Role, content: tuple[Fields, ...], metadata: dict[str, Any]) -> UnifiedMessage:
    return UnifiedMessage(
        id=uuid.uuid4().hex, timestamp=time.time(), type=type_, role=role, content=content, metadata=metadata
    )
