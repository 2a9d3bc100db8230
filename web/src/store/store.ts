// The store: what the server told, gathered between two frames of the screen and shown at once.

import type { History, SessionItem, Stream } from "../protocol";
import type { Socket, StreamMessage } from "../socket/socket";
import { prependHistory, trimRows } from "./conversation";
import { appendOlderSessions } from "./list";
import { EMPTY_STATE, reduce, withConversation } from "./reduce";
import type { StoreState } from "./reduce";

/** Calls back before the screen is drawn next; soon, where nothing is drawn because nobody looks. */
export type NextFrame = (act: () => void) => void;

const MAX_CONVERSATIONS = 8; // conversations that were looked at last; coming back to one costs only what is new in it

const RESUBSCRIBE_MS = 2_000; // ms; a stream that the server had to end may work again soon

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

  /** Keeps the conversation up to date until the returned function is called. */
  follow(id: string): () => void {
    this.flush(); // what is gathered is behind the cursor already
    this.recent = [id, ...this.recent.filter((other) => other !== id)];
    const after = this.state.conversations.get(id)?.cursor ?? null;
    return this.socket.subscribe("session", id, { after, onMessage: this.gather });
  }

  /** Whether someone reads further up in a conversation: then nothing of it is let go. */
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

  /** Older rows of a conversation, which were asked for. */
  addOlder(id: string, history: History): void {
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

  /** What was known of another journal is nothing that could be gone on with. */
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
      const less = this.heldIds.has(id) ? conversation : trimRows(conversation);
      if (less !== conversation) state = withConversation(state, id, less);
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

/** `requestAnimationFrame`, but for a page in the background, where it would not come. */
export function nextFrame(act: () => void): void {
  if (document.hidden) setTimeout(act, 250);
  else requestAnimationFrame(act);
}
