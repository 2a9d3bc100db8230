// What the parts of a conversation need of the page around them.

import { createContext, use } from "react";

import type { Bridge } from "./bridge";

/** What a problem can be helped by; `Problem.actions` names them. */
export type Action = "login" | "restart" | "restart_and_reload" | "install" | "settings";

export interface Talk {
  readonly bridge: Bridge;
  readonly sessionId: string;
  readonly workspace: string;
  /** What is said above the conversation to be wrong, and need not be said again. */
  readonly above: string | null;
  readonly onOpenFile: (path: string, line: number | null) => void;
  /** Shows what a run changed, all of it. */
  readonly onShowChanges: (runId: string) => void;
  readonly onAction: (action: Action) => void;
}

export const TalkContext = createContext<Talk | null>(null);

export function useTalk(): Talk {
  const talk = use(TalkContext);
  if (talk === null) throw new Error("there is no conversation above this component");
  return talk;
}
