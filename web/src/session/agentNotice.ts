// The notice above a conversation about its agent, and the remedies that it offers.

import type { ActionName } from "../header/useSessionActions";
import type { SessionState, SessionFailure } from "../protocol";

export type Remedy = Extract<ActionName, "continue" | "restart" | "reload"> | "login" | "settings";

export interface AgentNotice {
  readonly tone: "bad" | "plain";
  readonly text: string;
  /** The most helpful one comes first. */
  readonly remedies: readonly Remedy[];
}

export function agentNotice(live: SessionState): AgentNotice | null {
  const why = live.failure?.message ?? live.reason;
  switch (live.connection) {
    case "connected":
      return live.status === "error" && live.failure !== null
        ? { tone: "bad", text: why, remedies: remediesFor(live.failure) }
        : null;
    case "starting":
      return { tone: "plain", text: "The agent is starting…", remedies: [] };
    case "none":
      return live.can_resume ? { tone: "plain", text: why || "This session is closed.", remedies: ["continue"] } : null;
    case "elsewhere":
      return {
        tone: "plain",
        text: why || "Another program has this session open. Its work appears here.",
        remedies: [],
      };
    case "watched":
      return {
        tone: "plain",
        text:
          "Another program is working on this session. Its work appears here." +
          (live.can_resume ? " Continue only if it has ended." : ""),
        remedies: ["continue"],
      };
    case "disconnected":
      return { tone: "bad", text: why || "The agent has exited.", remedies: remediesFor(live.failure) };
    case "error":
      return { tone: "bad", text: why || "The agent could not be started.", remedies: remediesFor(live.failure) };
  }
}

function remediesFor(problem: SessionFailure | null): readonly Remedy[] {
  const helps = (action: string) => problem?.actions.includes(action) ?? false;
  const again: Remedy[] = ["reload", "restart"];
  const settings: Remedy[] = helps("settings") ? ["settings"] : [];
  // A program that is not there will not be there the next time either.
  if (helps("install")) return [...settings, ...again];
  return [...(helps("login") ? (["login"] as const) : []), ...again, ...settings];
}
