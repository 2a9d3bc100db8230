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

export function reduce(state: StoreState, message: StreamMessage): StoreState {
  switch (message.stream) {
    case "sessions":
      if (message.type === "snapshot") return { ...state, list: applyListSnapshot(message) };
      if (message.type === "update" && state.list !== null)
        return { ...state, list: applyListUpdate(state.list, message) };
      return state;
    case "permissions":
      return message.type === "ended" ? state : { ...state, waiting: message.pending };
    case "agents":
      return message.type === "ended" ? state : { ...state, agents: message.agents };
    case "session":
      return reduceSession(state, message);
    case "terminal":
      return state; // terminal output goes straight to its view
  }
}

function reduceSession(
  state: StoreState,
  message: SessionSnapshot | SessionUpdate | FramesUpdate | StreamEnded,
): StoreState {
  const before = state.conversations.get(message.id) ?? null;
  if (message.type === "ended") {
    return { ...state, gone: new Map(state.gone).set(message.id, message.reason) };
  }
  if (message.type === "snapshot") return withConversation(state, message.id, applySnapshot(before, message));
  // Frames are only for the diagnostics, which keep them.
  if (before === null || "frames" in message) return state;
  return withConversation(state, message.id, applyUpdate(before, message));
}

export function withConversation(state: StoreState, id: string, conversation: ConversationState): StoreState {
  const conversations = new Map(state.conversations).set(id, conversation);
  if (!state.gone.has(id)) return { ...state, conversations };
  const gone = new Map(state.gone);
  gone.delete(id);
  return { ...state, conversations, gone };
}
