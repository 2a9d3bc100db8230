// What the parts of a conversation need of the page around them.

import { createContext, use } from "react";

import type { Bridge } from "./bridge";

/** What a problem can be helped by; `Problem.actions` names them. */
export type ProblemAction = "login" | "restart" | "restart_and_reload" | "install" | "settings";

export interface ConversationContextValue {
  readonly bridge: Bridge;
  readonly sessionId: string;
  readonly workspace: string;
  /** What is said above the conversation to be wrong, and need not be said again. */
  readonly shownError: string | null;
  readonly onOpenFile: (path: string, line: number | null) => void;
  /** Shows what a run changed, all of it. */
  readonly onShowChanges: (runId: string) => void;
  readonly onAction: (action: ProblemAction) => void;
}

export const ConversationContext = createContext<ConversationContextValue | null>(null);

export function useConversation(): ConversationContextValue {
  const context = use(ConversationContext);
  if (context === null) throw new Error("there is no conversation above this component");
  return context;
}
