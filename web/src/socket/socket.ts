// The one connection to the bridge. It is kept for as long as the page is open: a lost one is opened again, every
// stream goes on after its last cursor, and a control that had no answer yet is sent again under the same command id,
// so nothing is lost and nothing done twice.

import { PROTOCOL } from "../protocol";
import type {
  AnyControl,
  Ended,
  Failure,
  FromClient,
  FromServer,
  Hello,
  ResultOf,
  Snapshot,
  Stream,
  Subscribe,
  Update,
} from "../protocol";
import { waitBefore } from "./backoff";
import { Refused, changesSomething, newId } from "./control";
import type { ControlType, Fields } from "./control";

const PING_EVERY = 20_000; // ms; proxies commonly drop what is silent for 30 to 60 seconds
const PONG_WITHIN = 10_000;
const SOON = 3_000; // for whoever looks at the page, or when the browser says that the network changed
const GIVE_UP_AFTER = 30_000; // a person who pressed a button should hear by then that it did not work

export type Link =
  | { kind: "connecting" }
  | { kind: "open"; hello: Hello }
  | { kind: "lost"; since: number; retryAt: number }
  | { kind: "signed_out" }
  | { kind: "outdated"; version: string };

export type StreamMessage = Snapshot | Update | Ended;

export interface Subscription {
  /** Goes on after this one where the server still can. */
  after?: string | null;
  limit?: number;
  frames?: boolean;
  onMessage: (message: StreamMessage) => void;
}

/** What of the browser is needed; tests give their own. */
export interface Surroundings {
  open: (url: string) => WebSocket;
  now: () => number;
  random: () => number;
  /** Whether the server knows this browser. Asked when the socket does not open, because that does not say why. */
  signedIn: () => Promise<boolean>;
}

interface Waiting {
  control: AnyControl;
  resolve: (result: unknown) => void;
  reject: (problem: Error) => void;
  timer: ReturnType<typeof setTimeout> | null;
}

interface Followed extends Subscription {
  request: Subscribe;
  /** It was asked for, and what comes before its snapshot is of an earlier subscription to the same. */
  expected: boolean;
}

export class Socket {
  private link: Link = { kind: "connecting" };
  private socket: WebSocket | null = null;
  private greeted = false;
  private attempt = 0;
  private lostSince: number | null = null;
  private journal: string | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private ping: ReturnType<typeof setTimeout> | null = null;
  private readonly streams = new Map<string, Followed>();
  private readonly waiting = new Map<string, Waiting>();
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly url: string,
    private readonly around: Surroundings,
  ) {}

  // -- the link, in the form that useSyncExternalStore takes

  readonly current = (): Link => this.link;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Now, and not when the wait is over: the network is back, or a person pressed the button. */
  readonly connect = (): void => {
    if (this.socket !== null) return;
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = null;
    this.greeted = false;
    const socket = this.around.open(this.url);
    this.socket = socket;
    socket.onmessage = (event: MessageEvent<string>) => this.heard(JSON.parse(event.data) as FromServer);
    socket.onclose = () => {
      if (this.socket === socket) this.lost();
    };
    // A network that swallows everything lets a socket open for minutes.
    this.dropAfter(PONG_WITHIN);
  };

  /** Whether the server is still there: someone looks, or the network changed. */
  readonly check = (): void => {
    if (!this.greeted) return this.connect();
    this.send({ type: "ping" });
    this.dropAfter(SOON);
  };

  close(): void {
    const socket = this.socket;
    this.socket = null;
    this.greeted = false;
    this.stopTimers();
    socket?.close();
  }

  // -- streams

  /** Follows it until the returned function is called. Each stream is followed once at a time. */
  subscribe(stream: Stream, id: string, subscription: Subscription): () => void {
    const key = keyOf(stream, id);
    const { after = null, limit, frames } = subscription;
    const request: Subscribe = { type: "subscribe", stream, id, after };
    if (limit !== undefined) request.limit = limit;
    if (frames !== undefined) request.frames = frames;
    const followed: Followed = { ...subscription, request, expected: true };
    this.streams.set(key, followed);
    this.ask(followed);
    return () => {
      if (this.streams.get(key) !== followed) return;
      this.streams.delete(key);
      this.send({ type: "unsubscribe", stream, id });
    };
  }

  // -- controls

  /** Rejects with `Refused`: what the server says, or that it could not be reached in time. */
  control<T extends ControlType>(type: T, fields: Fields<T>): Promise<ResultOf[T]> {
    const control = { ...fields, type, id: newId() } as unknown as AnyControl;
    if (changesSomething(type)) control.command_id = newId();
    return new Promise<ResultOf[T]>((resolve, reject) => {
      const waiting: Waiting = { control, resolve: resolve as (result: unknown) => void, reject, timer: null };
      this.waiting.set(control.id, waiting);
      // While the link is open the server answers however long it takes: an agent may need minutes to start.
      if (this.greeted) this.send(control);
      else this.giveUpLater(waiting);
    });
  }

  private giveUpLater(waiting: Waiting): void {
    waiting.timer ??= setTimeout(() => {
      this.waiting.delete(waiting.control.id);
      waiting.reject(
        new Refused({
          kind: "unavailable",
          message: "The server cannot be reached, so this was not done.",
          guidance: "Look whether `dragoman serve` still runs, then try again.",
          field: null,
          retry_after: null,
          error: null,
          stderr: "",
        }),
      );
    }, GIVE_UP_AFTER);
  }

  // -- what comes in

  private heard(message: FromServer): void {
    this.expectMore();
    switch (message.type) {
      case "hello":
        return this.greet(message);
      case "snapshot":
      case "update":
      case "ended":
        return this.told(message);
      case "result":
        return this.settle(message.id, (waiting) => waiting.resolve(message.result));
      case "error":
        return this.refused(message);
      case "pong":
        return;
    }
  }

  private greet(hello: Hello): void {
    if (hello.protocol !== PROTOCOL) {
      this.close();
      return this.become({ kind: "outdated", version: hello.version });
    }
    this.greeted = true;
    this.attempt = 0;
    this.lostSince = null;
    const sameJournal = this.journal === null || this.journal === hello.journal;
    this.journal = hello.journal;
    for (const followed of this.streams.values()) {
      // A cursor of another journal says nothing about this one.
      if (!sameJournal) followed.request.after = null;
      this.ask(followed);
    }
    for (const waiting of this.waiting.values()) {
      if (waiting.timer !== null) clearTimeout(waiting.timer);
      waiting.timer = null;
      this.send(waiting.control);
    }
    this.become({ kind: "open", hello });
  }

  private told(message: StreamMessage): void {
    const key = keyOf(message.stream, "id" in message ? message.id : "");
    const followed = this.streams.get(key);
    if (followed === undefined) return; // it crossed with our unsubscribe
    if (message.type === "ended") {
      this.streams.delete(key);
      return followed.onMessage(message);
    }
    if (message.type === "update" && (followed.request.frames ? !("frames" in message) : followed.expected)) return;
    // What is gone on with must be what is known here: else it would be told twice.
    if (isResumed(message) && message.cursor !== followed.request.after) return this.ask(followed);
    followed.expected = false;
    followed.request.after = message.cursor;
    followed.onMessage(message);
  }

  private ask(followed: Followed): void {
    followed.expected = true;
    this.send(followed.request);
  }

  private refused({ id, error }: Failure): void {
    if (id !== null) this.settle(id, (waiting) => waiting.reject(new Refused(error)));
    if (error.kind !== "unauthorized") return;
    this.close();
    this.become({ kind: "signed_out" });
  }

  private settle(id: string, act: (waiting: Waiting) => void): void {
    const waiting = this.waiting.get(id);
    if (waiting === undefined) return;
    this.waiting.delete(id);
    if (waiting.timer !== null) clearTimeout(waiting.timer);
    act(waiting);
  }

  // -- coming and going

  private lost(): void {
    this.socket = null;
    this.stopTimers();
    const reached = this.greeted;
    this.greeted = false;
    this.lostSince ??= this.around.now();
    for (const waiting of this.waiting.values()) this.giveUpLater(waiting);
    const wait = waitBefore(this.attempt++, this.around.random());
    this.retry = setTimeout(this.connect, wait);
    this.become({ kind: "lost", since: this.lostSince, retryAt: this.around.now() + wait });
    if (!reached) void this.askWhetherSignedIn();
  }

  private async askWhetherSignedIn(): Promise<void> {
    if ((await this.around.signedIn()) || this.greeted) return;
    this.stopTimers();
    this.become({ kind: "signed_out" });
  }

  private expectMore(): void {
    if (this.ping !== null) clearTimeout(this.ping);
    this.ping = setTimeout(() => {
      this.send({ type: "ping" });
      this.dropAfter(PONG_WITHIN);
    }, PING_EVERY);
  }

  /** Unless something is heard before: a socket whose other end is gone may take minutes to say so by itself. */
  private dropAfter(wait: number): void {
    if (this.ping !== null) clearTimeout(this.ping);
    this.ping = setTimeout(() => this.drop(), wait);
  }

  private drop(): void {
    const socket = this.socket;
    if (socket === null) return;
    socket.onclose = null;
    socket.close();
    this.lost();
  }

  private stopTimers(): void {
    if (this.ping !== null) clearTimeout(this.ping);
    if (this.retry !== null) clearTimeout(this.retry);
    this.ping = null;
    this.retry = null;
  }

  private send(message: FromClient): void {
    if (this.greeted) this.socket?.send(JSON.stringify(message));
  }

  private become(link: Link): void {
    this.link = link;
    for (const watcher of this.watchers) watcher();
  }
}

function isResumed(message: Snapshot | Update): boolean {
  return message.type === "snapshot" && message.stream === "session" && message.resumed;
}

function keyOf(stream: Stream, id: string): string {
  return `${stream} ${id}`;
}
