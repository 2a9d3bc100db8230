// All that the page knows of the server, and what each message makes of it.

import type { AgentItem, Ended, FramesUpdate, SessionSnapshot, SessionUpdate, Waiting } from "../protocol";
import type { StreamMessage } from "../socket/socket";
import { snapshot, update } from "./conversation";
import type { Conversation } from "./conversation";
import { listSnapshot, listUpdate } from "./list";
import type { List } from "./list";

export interface Known {
  /** Each null until the server told it. */
  readonly list: List | null;
  readonly waiting: readonly Waiting[] | null;
  readonly agents: readonly AgentItem[] | null;
  readonly conversations: ReadonlyMap<string, Conversation>;
  /** Sessions that were followed and are no more, and why. */
  readonly gone: ReadonlyMap<string, string>;
}

export const NOTHING: Known = { list: null, waiting: null, agents: null, conversations: new Map(), gone: new Map() };

export function reduce(known: Known, message: StreamMessage): Known {
  switch (message.stream) {
    case "sessions":
      if (message.type === "snapshot") return { ...known, list: listSnapshot(message) };
      if (message.type === "update" && known.list !== null) return { ...known, list: listUpdate(known.list, message) };
      return known;
    case "permissions":
      return message.type === "ended" ? known : { ...known, waiting: message.waiting };
    case "agents":
      return message.type === "ended" ? known : { ...known, agents: message.agents };
    case "session":
      return session(known, message);
    case "terminal":
      return known; // what a terminal writes goes straight to where it is shown
  }
}

function session(known: Known, message: SessionSnapshot | SessionUpdate | FramesUpdate | Ended): Known {
  const before = known.conversations.get(message.id) ?? null;
  if (message.type === "ended") {
    return { ...known, gone: new Map(known.gone).set(message.id, message.reason) };
  }
  if (message.type === "snapshot") return withConversation(known, message.id, snapshot(before, message));
  // Frames are for diagnostics, which keep them to themselves.
  if (before === null || "frames" in message) return known;
  return withConversation(known, message.id, update(before, message));
}

export function withConversation(known: Known, id: string, conversation: Conversation): Known {
  const conversations = new Map(known.conversations).set(id, conversation);
  if (!known.gone.has(id)) return { ...known, conversations };
  const gone = new Map(known.gone);
  gone.delete(id);
  return { ...known, conversations, gone };
}
