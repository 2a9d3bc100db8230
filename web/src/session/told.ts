// What is said above a conversation about the agent, and what is offered.

import type { Doable } from "../header/useSessionActions";
import type { Live, Problem } from "../protocol";

export type Help = Extract<Doable, "continue" | "restart" | "reload"> | "login" | "settings";

export interface Told {
  readonly tone: "bad" | "plain";
  readonly text: string;
  /** What helps most comes first. */
  readonly helps: readonly Help[];
}

export function told(live: Live): Told | null {
  const why = live.problem?.message ?? live.reason;
  switch (live.connection) {
    case "connected":
      return live.status === "error" && live.problem !== null
        ? { tone: "bad", text: why, helps: helpsFor(live.problem) }
        : null;
    case "starting":
      return { tone: "plain", text: "The agent is starting…", helps: [] };
    case "none":
      return live.continuable ? { tone: "plain", text: why || "This session is closed.", helps: ["continue"] } : null;
    case "elsewhere":
      return {
        tone: "plain",
        text: why || "Another program has this session open. What it does shows up here.",
        helps: [],
      };
    case "watched":
      return {
        tone: "plain",
        text:
          "Another program is at work on this session: what it does shows up here." +
          (live.continuable ? " Continue only if it has ended." : ""),
        helps: ["continue"],
      };
    case "disconnected":
      return { tone: "bad", text: why || "The agent is gone.", helps: helpsFor(live.problem) };
    case "error":
      return { tone: "bad", text: why || "The agent could not be started.", helps: helpsFor(live.problem) };
  }
}

function helpsFor(problem: Problem | null): readonly Help[] {
  const helps = (action: string) => problem?.actions.includes(action) ?? false;
  const again: Help[] = ["reload", "restart"];
  const settings: Help[] = helps("settings") ? ["settings"] : [];
  // A program that is not there will not be there the next time either.
  if (helps("install")) return [...settings, ...again];
  return [...(helps("login") ? (["login"] as const) : []), ...again, ...settings];
}
