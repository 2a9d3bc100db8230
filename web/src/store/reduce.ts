// The state of the page's store, and how messages change it.

import type { AgentItem, StreamEnded, FramesUpdate, SessionSnapshot, SessionUpdate, PendingItem } from "../protocol";
import type { StreamMessage } from "../socket/socket";
import { applySnapshot, applyUpdate } from "./conversation";
import type { ConversationState } from "./conversation";
import { applyListSnapshot, applyListUpdate } from "./list";
import type { SessionListState } from "./list";

export interface StoreState {
  /** Null until the server sent it. */
  readonly list: SessionListState | null;
  readonly waiting: readonly PendingItem[] | null;
  readonly agents: readonly AgentItem[] | null;
  readonly conversations: ReadonlyMap<string, ConversationState>;
  /** Sessions that were followed and have ended, with the reason. */
  readonly gone: ReadonlyMap<string, string>;
}

export const EMPTY_STATE: StoreState = {
  list: null,
  waiting: null,
  agents: null,
  conversations: new Map(),
  gone: new Map(),
};

export function reduce(known: StoreState, message: StreamMessage): StoreState {
  switch (message.stream) {
    case "sessions":
      if (message.type === "snapshot") return { ...known, list: applyListSnapshot(message) };
      if (message.type === "update" && known.list !== null)
        return { ...known, list: applyListUpdate(known.list, message) };
      return known;
    case "permissions":
      return message.type === "ended" ? known : { ...known, waiting: message.pending };
    case "agents":
      return message.type === "ended" ? known : { ...known, agents: message.agents };
    case "session":
      return reduceSession(known, message);
    case "terminal":
      return known; // terminal output goes straight to its view
  }
}

function reduceSession(
  known: StoreState,
  message: SessionSnapshot | SessionUpdate | FramesUpdate | StreamEnded,
): StoreState {
  const before = known.conversations.get(message.id) ?? null;
  if (message.type === "ended") {
    return { ...known, gone: new Map(known.gone).set(message.id, message.reason) };
  }
  if (message.type === "snapshot") return withConversation(known, message.id, applySnapshot(before, message));
  // Frames are only for the diagnostics, which keep them.
  if (before === null || "frames" in message) return known;
  return withConversation(known, message.id, applyUpdate(before, message));
}

export function withConversation(known: StoreState, id: string, conversation: ConversationState): StoreState {
  const conversations = new Map(known.conversations).set(id, conversation);
  if (!known.gone.has(id)) return { ...known, conversations };
  const gone = new Map(known.gone);
  gone.delete(id);
  return { ...known, conversations, gone };
}
