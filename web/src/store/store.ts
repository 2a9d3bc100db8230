// The store: what the server told, gathered between two frames of the screen and shown at once.

import type { History, SessionItem, Stream } from "../protocol";
import type { Socket, StreamMessage } from "../socket/socket";
import { older, trimmed } from "./conversation";
import { listOlder } from "./list";
import { NOTHING, reduce, withConversation } from "./reduce";
import type { Known } from "./reduce";

/** Calls back before the screen is drawn next; soon, where nothing is drawn because nobody looks. */
export type NextFrame = (act: () => void) => void;

const KEPT = 8; // conversations that were looked at last; coming back to one costs only what is new in it

const AGAIN = 2_000; // ms; a stream that the server had to end may work again soon

export class Store {
  private known: Known = NOTHING;
  private gathered: StreamMessage[] = [];
  private readonly watchers = new Set<() => void>();
  private recent: readonly string[] = [];
  private readonly held = new Set<string>();
  private journal: string | null = null;

  constructor(
    private readonly socket: Socket,
    private readonly nextFrame: NextFrame,
  ) {
    for (const stream of ["sessions", "permissions", "agents"] as const) this.followAlways(stream);
    socket.watch(this.checkJournal);
  }

  readonly current = (): Known => this.known;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Keeps the conversation up to date until the returned function is called. */
  follow(id: string): () => void {
    this.flush(); // what is gathered is behind the cursor already
    this.recent = [id, ...this.recent.filter((other) => other !== id)];
    const after = this.known.conversations.get(id)?.cursor ?? null;
    return this.socket.subscribe("session", id, { after, onMessage: this.gather });
  }

  /** Whether someone reads further up in a conversation: then nothing of it is let go. */
  readonly hold = (id: string, held: boolean): void => {
    if (held) this.held.add(id);
    else this.held.delete(id);
  };

  private followAlways(stream: Stream): void {
    this.socket.subscribe(stream, "", {
      onMessage: (message) => {
        if (message.type === "ended") setTimeout(() => this.followAlways(stream), AGAIN);
        else this.gather(message);
      },
    });
  }

  /** Older rows of a conversation, which were asked for. */
  addOlder(id: string, history: History): void {
    this.flush();
    const conversation = this.known.conversations.get(id);
    if (conversation !== undefined) this.become(withConversation(this.known, id, older(conversation, history)));
  }

  addOlderSessions(sessions: readonly SessionItem[], more: boolean): void {
    this.flush();
    const { list } = this.known;
    if (list !== null) this.become({ ...this.known, list: listOlder(list, sessions, more) });
  }

  /** What was known of another journal is nothing that could be gone on with. */
  private readonly checkJournal = (): void => {
    const link = this.socket.current();
    if (link.kind !== "open" || link.hello.journal === this.journal) return;
    if (this.journal !== null) this.become(NOTHING);
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
    this.become(this.trimmed(messages.reduce(reduce, this.known)));
  };

  private trimmed(known: Known): Known {
    for (const [id, conversation] of known.conversations) {
      const less = this.held.has(id) ? conversation : trimmed(conversation);
      if (less !== conversation) known = withConversation(known, id, less);
    }
    return known;
  }

  private become(known: Known): void {
    this.known = this.forgetting(known);
    for (const watcher of this.watchers) watcher();
  }

  private forgetting(known: Known): Known {
    if (this.recent.length <= KEPT) return known;
    this.recent = this.recent.slice(0, KEPT);
    const kept = [...known.conversations].filter(([id]) => this.recent.includes(id));
    return { ...known, conversations: new Map(kept) };
  }
}

/** `requestAnimationFrame`, but for a page in the background, where it would not come. */
export function nextFrame(act: () => void): void {
  if (document.hidden) setTimeout(act, 250);
  else requestAnimationFrame(act);
}
