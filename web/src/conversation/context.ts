// The context that a conversation gives to its parts.

import { createContext, use } from "react";

import type { Message, RunChanges } from "../protocol";
import type { Bridge } from "./bridge";

/** Actions that help with a problem; `Problem.actions` names them. */
export type ProblemAction = "login" | "restart" | "restart_and_reload" | "install" | "settings";

export interface ConversationContextValue {
  readonly bridge: Bridge;
  readonly sessionId: string;
  readonly workspace: string;
  /** The error in the notice above the conversation, which is not repeated; null if there is none. */
  readonly shownError: string | null;
  readonly onOpenFile: (path: string, line: number | null) => void;
  /** Shows all changes of a run in the side panel. */
  readonly onShowChanges: (runId: string) => void;
  readonly onAction: (action: ProblemAction) => void;
  /** Shows more of a long message. */
  readonly onLoaded: (message: Message) => void;
}

export const ConversationContext = createContext<ConversationContextValue | null>(null);

/** The runs that changed files, by id. Apart, because only the ends of runs show it. */
export const RunChangesContext = createContext<ReadonlyMap<string, RunChanges>>(new Map());

export function useConversation(): ConversationContextValue {
  const context = use(ConversationContext);
  if (context === null) throw new Error("there is no conversation above this component");
  return context;
}
