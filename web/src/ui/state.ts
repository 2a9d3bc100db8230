// The state of a session for its dot: of its connection and its work, what matters most to the user.

import type { ConnectionStatus, RunStatus, SessionStatus } from "../protocol";

export type SessionState = "waiting" | "running" | "starting" | "idle" | "interrupted" | "error" | "disconnected";

export const STATE_LABELS: Readonly<Record<SessionState, string>> = {
  waiting: "needs you",
  running: "running",
  starting: "starting",
  idle: "idle",
  interrupted: "interrupted",
  error: "failed",
  disconnected: "disconnected",
};

interface StateSource {
  connection: ConnectionStatus;
  status: SessionStatus;
  waiting?: number;
  run_status?: RunStatus | null;
}

export function stateOf({ connection, status, waiting = 0, run_status = null }: StateSource): SessionState {
  if (waiting > 0 || status === "waiting") return "waiting";
  if (status === "running") return "running";
  if (connection === "starting") return "starting";
  if (connection === "error" || status === "error" || run_status === "error") return "error";
  if (connection === "disconnected") return "disconnected";
  // An interrupted run does not matter once the agent is connected again.
  if (run_status === "interrupted" && connection !== "connected") return "interrupted";
  return "idle";
}
