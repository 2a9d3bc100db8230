"""`RunWatch`: what a run says and how it ends, gathered from the stream of its session. Pure."""

from __future__ import annotations

from dragoman.bridge.messages import Append, Put, SessionSnapshot, SessionUpdate
from dragoman.bridge.payload import Message, Out, Run, RunStatus, Usage


class RunTold(Out, frozen=True, kw_only=True):
    """A run. `text` is all that the agent said in it, a blank line between its messages.

    `status` is `running` only where the client would not wait any longer. `cursor`: from where its stream goes on.
    """

    session_id: str
    run_id: str
    status: RunStatus
    stop_reason: str | None
    reason: str | None
    text: str
    usage: Usage | None
    cursor: str


class RunWatch:
    def __init__(self, session_id: str, run_id: str) -> None:
        self._session_id = session_id
        self._run_id = run_id
        self._run: Run | None = None
        self._texts: dict[str, str] = {}
        self._cursor = ""

    @property
    def ended(self) -> bool:
        return self._run is not None and self._run.status != "running"

    def hear(self, message: Out) -> None:
        """A message of the session's stream."""
        match message:
            case SessionSnapshot():
                for row in (*message.rows.runs, *message.rows.messages):
                    self.put(row)
                self._cursor = message.cursor
            case SessionUpdate():
                for change in message.changes:
                    match change:
                        case Put():
                            self.put(change.row)
                        case Append() if change.message_id in self._texts:
                            self._texts[change.message_id] += change.text
                        case _:
                            pass
                self._cursor = message.cursor
            case _:
                pass

    def told(self) -> RunTold:
        run = self._run
        return RunTold(
            session_id=self._session_id,
            run_id=self._run_id,
            status="running" if run is None else run.status,
            stop_reason=run.stop_reason if run else None,
            reason=run.reason if run else None,
            text="\n\n".join(text for text in self._texts.values() if text),
            usage=run.usage if run else None,
            cursor=self._cursor,
        )

    def put(self, row: Out) -> None:
        match row:
            case Run() if row.id == self._run_id:
                self._run = row
            case Message(kind="assistant") if row.run_id == self._run_id:
                self._texts[row.id] = row.text
            case _:
                pass
