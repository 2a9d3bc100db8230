// The store collects messages between two frames of the screen and applies them at once.

import type { HistoryPage, SessionItem, Stream } from "../protocol";
import type { Socket, StreamMessage } from "../socket/socket";
import { prependHistory, trimRows } from "./conversation";
import { appendOlderSessions } from "./list";
import { EMPTY_STATE, reduce, withConversation } from "./reduce";
import type { StoreState } from "./reduce";

/** Calls back before the next frame, or soon if the page is in the background. */
export type NextFrame = (act: () => void) => void;

const MAX_CONVERSATIONS = 8; // recent conversations; returning to one loads only what is new

const RESUBSCRIBE_MS = 2_000; // ms before a stream that the server ended is followed again

export class Store {
  private state: StoreState = EMPTY_STATE;
  private gathered: StreamMessage[] = [];
  private readonly watchers = new Set<() => void>();
  private recent: readonly string[] = [];
  private readonly heldIds = new Set<string>();
  private journal: string | null = null;

  constructor(
    private readonly socket: Socket,
    private readonly nextFrame: NextFrame,
  ) {
    for (const stream of ["sessions", "permissions", "agents"] as const) this.followAlways(stream);
    socket.watch(this.checkJournal);
  }

  readonly current = (): StoreState => this.state;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Follows a session until the returned function is called. */
  follow(id: string): () => void {
    this.flush(); // collected messages are already covered by the cursor
    this.recent = [id, ...this.recent.filter((other) => other !== id)];
    const after = this.state.conversations.get(id)?.cursor ?? null;
    return this.socket.subscribe("session", id, { after, onMessage: this.gather });
  }

  /** Keeps all rows of a conversation while someone reads further up. */
  readonly hold = (id: string, isHeld: boolean): void => {
    if (isHeld) this.heldIds.add(id);
    else this.heldIds.delete(id);
  };

  private followAlways(stream: Stream): void {
    this.socket.subscribe(stream, "", {
      onMessage: (message) => {
        if (message.type === "ended") setTimeout(() => this.followAlways(stream), RESUBSCRIBE_MS);
        else this.gather(message);
      },
    });
  }

  /** Adds older rows that were requested. */
  addOlder(id: string, history: HistoryPage): void {
    this.flush();
    const conversation = this.state.conversations.get(id);
    if (conversation !== undefined)
      this.become(withConversation(this.state, id, prependHistory(conversation, history)));
  }

  addOlderSessions(sessions: readonly SessionItem[], more: boolean): void {
    this.flush();
    const { list } = this.state;
    if (list !== null) this.become({ ...this.state, list: appendOlderSessions(list, sessions, more) });
  }

  /** Resets the state when the server has another journal. */
  private readonly checkJournal = (): void => {
    const link = this.socket.current();
    if (link.kind !== "open" || link.hello.journal === this.journal) return;
    if (this.journal !== null) this.become(EMPTY_STATE);
    this.gathered = [];
    this.journal = link.hello.journal;
  };

  private readonly gather = (message: StreamMessage): void => {
    this.gathered.push(message);
    if (this.gathered.length === 1) this.nextFrame(this.flush);
  };

  private readonly flush = (): void => {
    if (this.gathered.length === 0) return;
    const messages = this.gathered;
    this.gathered = [];
    this.become(this.trimConversations(messages.reduce(reduce, this.state)));
  };

  private trimConversations(state: StoreState): StoreState {
    for (const [id, conversation] of state.conversations) {
      const trimmed = this.heldIds.has(id) ? conversation : trimRows(conversation);
      if (trimmed !== conversation) state = withConversation(state, id, trimmed);
    }
    return state;
  }

  private become(state: StoreState): void {
    this.state = this.dropOldConversations(state);
    for (const watcher of this.watchers) watcher();
  }

  private dropOldConversations(state: StoreState): StoreState {
    if (this.recent.length <= MAX_CONVERSATIONS) return state;
    this.recent = this.recent.slice(0, MAX_CONVERSATIONS);
    const remaining = [...state.conversations].filter(([id]) => this.recent.includes(id));
    return { ...state, conversations: new Map(remaining) };
  }
}

/** `requestAnimationFrame`, with a timer for a page in the background, where it is not called. */
export function nextFrame(act: () => void): void {
  if (document.hidden) setTimeout(act, 250);
  else requestAnimationFrame(act);
}
