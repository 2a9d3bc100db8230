"""Checks that a frame fits the Python SDK's models exactly. Runs in the environment of the SDK, not in ours.

The SDK itself is lenient: a field that it cannot read becomes its default, one that it does not know is dropped. So a
frame counts as accepted only if the model, written out again, says all that the frame said.
"""

from __future__ import annotations

from typing import Any

from acp import schema

AGENT_REQUESTS: dict[str, tuple[Any, Any]] = {
    "initialize": (schema.InitializeRequest, schema.InitializeResponse),
    "authenticate": (schema.AuthenticateRequest, schema.AuthenticateResponse),
    "logout": (schema.LogoutRequest, schema.LogoutResponse),
    "session/new": (schema.NewSessionRequest, schema.NewSessionResponse),
    "session/load": (schema.LoadSessionRequest, schema.LoadSessionResponse),
    "session/resume": (schema.ResumeSessionRequest, schema.ResumeSessionResponse),
    "session/fork": (schema.ForkSessionRequest, schema.ForkSessionResponse),
    "session/list": (schema.ListSessionsRequest, schema.ListSessionsResponse),
    "session/delete": (schema.DeleteSessionRequest, schema.DeleteSessionResponse),
    "session/close": (schema.CloseSessionRequest, schema.CloseSessionResponse),
    "session/prompt": (schema.PromptRequest, schema.PromptResponse),
    "session/set_mode": (schema.SetSessionModeRequest, schema.SetSessionModeResponse),
    "session/set_config_option": (schema.SetSessionConfigOptionSelectRequest, schema.SetSessionConfigOptionResponse),
}
CLIENT_REQUESTS: dict[str, tuple[Any, Any]] = {
    "session/request_permission": (schema.RequestPermissionRequest, schema.RequestPermissionResponse),
    "fs/read_text_file": (schema.ReadTextFileRequest, schema.ReadTextFileResponse),
    "fs/write_text_file": (schema.WriteTextFileRequest, schema.WriteTextFileResponse),
    "terminal/create": (schema.CreateTerminalRequest, schema.CreateTerminalResponse),
    "terminal/output": (schema.TerminalOutputRequest, schema.TerminalOutputResponse),
    "terminal/wait_for_exit": (schema.WaitForTerminalExitRequest, schema.WaitForTerminalExitResponse),
    "terminal/kill": (schema.KillTerminalRequest, schema.KillTerminalResponse),
    "terminal/release": (schema.ReleaseTerminalRequest, schema.ReleaseTerminalResponse),
    "elicitation/create": (schema.CreateElicitationRequest, schema.CreateElicitationResponse),
}
NOTIFICATIONS: dict[str, Any] = {
    "$/cancel_request": schema.CancelRequestNotification,
    "session/cancel": schema.CancelNotification,
    "session/update": schema.SessionNotification,
    "elicitation/complete": schema.CompleteElicitationNotification,
}


def params_model(method: str, params: Any) -> Any:
    """The model of what is said by this method; None where the SDK has none."""
    if method == "session/set_config_option" and params.get("type") == "boolean":
        return schema.SetSessionConfigOptionBooleanRequest
    if method in NOTIFICATIONS:
        return NOTIFICATIONS[method]
    return (AGENT_REQUESTS | CLIENT_REQUESTS).get(method, (None, None))[0]


def result_model(method: str) -> Any:
    return (AGENT_REQUESTS | CLIENT_REQUESTS).get(method, (None, None))[1]


def lost_in(frame: Any, model: Any) -> list[str]:
    """Return the paths of the frame that the model drops or changes."""
    from pydantic import TypeAdapter

    if model is None:
        return ["everything: the SDK has no model for it"]
    adapter = TypeAdapter(model)
    try:
        dumped = adapter.dump_python(adapter.validate_python(frame), mode="json", by_alias=True, exclude_unset=True)
    except ValueError as problem:
        return [f"everything: {problem}"]
    return _losses(frame, dumped, "")


def _losses(frame: Any, dumped: Any, path: str) -> list[str]:
    if isinstance(frame, dict) and isinstance(dumped, dict):
        return [loss for key in frame for loss in _losses(frame[key], dumped.get(key), f"{path}.{key}")]
    if isinstance(frame, list) and isinstance(dumped, list) and len(frame) == len(dumped):
        return [loss for number, item in enumerate(frame) for loss in _losses(item, dumped[number], f"{path}[]")]
    return [] if frame == dumped else [path.lstrip(".")]
