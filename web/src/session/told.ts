// What is said above a conversation about the agent, and what is offered.

import type { Doable } from "../header/useSessionActions";
import type { Live } from "../protocol";

export interface Told {
  readonly tone: "bad" | "plain";
  readonly text: string;
  readonly actions: readonly Doable[];
}

export function told(live: Live): Told | null {
  const why = live.problem?.message ?? live.reason;
  switch (live.connection) {
    case "connected":
      return live.status === "error" && live.problem !== null
        ? { tone: "bad", text: why, actions: ["restart", "reload"] }
        : null;
    case "starting":
      return { tone: "plain", text: "The agent is starting…", actions: [] };
    case "none":
      return live.continuable ? { tone: "plain", text: why || "This session is closed.", actions: ["continue"] } : null;
    case "elsewhere":
      return {
        tone: "plain",
        text: why || "Another program has this session open. What it does shows up here.",
        actions: [],
      };
    case "disconnected":
      return { tone: "bad", text: why || "The agent is gone.", actions: ["reload", "restart"] };
    case "error":
      return { tone: "bad", text: why || "The agent could not be started.", actions: ["reload", "restart"] };
  }
}
