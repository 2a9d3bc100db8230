// The page's connection to the server. A lost connection is opened again; every stream continues after its last cursor,
// and a request without an answer is sent again with the same command id, so nothing is lost and nothing is done twice.

import { PROTOCOL } from "../protocol";
import type {
  AnyRequest,
  StreamEnded,
  ErrorMessage,
  FromClient,
  FromServer,
  Hello,
  ResultOf,
  Snapshot,
  Stream,
  Subscribe,
  Update,
} from "../protocol";
import { retryDelayMs } from "./backoff";
import { RequestError, changesSomething, newId } from "./requests";
import type { RequestType, RequestFields } from "./requests";

const PING_INTERVAL_MS = 20_000; // ms; proxies commonly close connections that are silent for 30 to 60 seconds
const PONG_TIMEOUT_MS = 10_000;
const CHECK_TIMEOUT_MS = 3_000; // ms; when someone looks at the page, or the browser reports a network change
const REQUEST_TIMEOUT_MS = 30_000; // ms; the time in which a person expects to hear that it failed

export type ConnectionState =
  | { kind: "connecting" }
  | { kind: "open"; hello: Hello }
  | { kind: "lost"; since: number; retryAt: number }
  | { kind: "signed_out" }
  | { kind: "outdated"; version: string };

export type StreamMessage = Snapshot | Update | StreamEnded;

export interface Subscription {
  /** Continues after this cursor if the server still can. */
  after?: string | null;
  limit?: number;
  frames?: boolean;
  onMessage: (message: StreamMessage) => void;
}

/** The parts of the browser that are used; tests pass their own. */
export interface Environment {
  open: (url: string) => WebSocket;
  now: () => number;
  random: () => number;
  /** True if the server knows this browser. Asked when the socket does not open, because the socket gives no reason. */
  signedIn: () => Promise<boolean>;
}

interface PendingRequest {
  request: AnyRequest;
  resolve: (result: unknown) => void;
  reject: (problem: Error) => void;
  timer: ReturnType<typeof setTimeout> | null;
}

interface ActiveSubscription extends Subscription {
  request: Subscribe;
  /** Requested and not answered: updates before the snapshot belong to an earlier subscription to the same stream. */
  expected: boolean;
}

export class Socket {
  private state: ConnectionState = { kind: "connecting" };
  private socket: WebSocket | null = null;
  private isReady = false;
  private attempt = 0;
  private lostSince: number | null = null;
  private journal: string | null = null;
  private retry: ReturnType<typeof setTimeout> | null = null;
  private ping: ReturnType<typeof setTimeout> | null = null;
  private readonly streams = new Map<string, ActiveSubscription>();
  private readonly pending = new Map<string, PendingRequest>();
  private readonly watchers = new Set<() => void>();

  constructor(
    private readonly url: string,
    private readonly environment: Environment,
  ) {}

  // -- the link, in the form that useSyncExternalStore takes

  readonly current = (): ConnectionState => this.state;

  readonly watch = (watcher: () => void): (() => void) => {
    this.watchers.add(watcher);
    return () => this.watchers.delete(watcher);
  };

  /** Connects at once: the network is back, or the user pressed the button. */
  readonly connect = (): void => {
    if (this.socket !== null) return;
    if (this.retry !== null) clearTimeout(this.retry);
    this.retry = null;
    this.isReady = false;
    const socket = this.environment.open(this.url);
    this.socket = socket;
    socket.onmessage = (event: MessageEvent<string>) => this.receive(JSON.parse(event.data) as FromServer);
    socket.onclose = () => {
      if (this.socket === socket) this.onClosed();
    };
    // A network that drops packets lets a socket stay "connecting" for minutes.
    this.dropAfter(PONG_TIMEOUT_MS);
  };

  /** Checks the connection: someone looks at the page, or the network changed. */
  readonly check = (): void => {
    if (!this.isReady) {
      this.connect();
      return;
    }
    this.send({ type: "ping" });
    this.dropAfter(CHECK_TIMEOUT_MS);
  };

  close(): void {
    const socket = this.socket;
    this.socket = null;
    this.isReady = false;
    this.stopTimers();
    socket?.close();
  }

  // -- streams

  /** Follows a stream until the returned function is called. Each stream can be followed once at a time. */
  subscribe(stream: Stream, id: string, options: Subscription): () => void {
    const key = keyOf(stream, id);
    const { after = null, limit, frames } = options;
    const request: Subscribe = { type: "subscribe", stream, id, after };
    if (limit !== undefined) request.limit = limit;
    if (frames !== undefined) request.frames = frames;
    const subscription: ActiveSubscription = { ...options, request, expected: true };
    this.streams.set(key, subscription);
    this.sendSubscription(subscription);
    return () => {
      if (this.streams.get(key) !== subscription) return;
      this.streams.delete(key);
      this.send({ type: "unsubscribe", stream, id });
    };
  }

  // -- controls

  /** Sends a request. Rejects with `RequestError`: the server's error, or that it could not be reached in time. */
  request<T extends RequestType>(type: T, fields: RequestFields<T>): Promise<ResultOf[T]> {
    const request = { ...fields, type, id: newId() } as unknown as AnyRequest;
    if (changesSomething(type)) request.command_id = newId();
    return new Promise<ResultOf[T]>((resolve, reject) => {
      const pending: PendingRequest = { request, resolve: resolve as (result: unknown) => void, reject, timer: null };
      this.pending.set(request.id, pending);
      // While connected, wait for the answer however long it takes: an agent may need minutes to start.
      if (this.isReady) this.send(request);
      else this.giveUpLater(pending);
    });
  }

  private giveUpLater(pending: PendingRequest): void {
    pending.timer ??= setTimeout(() => {
      this.pending.delete(pending.request.id);
      pending.reject(
        new RequestError({
          kind: "unavailable",
          message: "The server cannot be reached, so this was not done.",
          guidance: "Check that `dragoman serve` is running, then try again.",
          field: null,
          retry_after: null,
          error: null,
          stderr: "",
          fields: {},
        }),
      );
    }, REQUEST_TIMEOUT_MS);
  }

  // -- what comes in

  private receive(message: FromServer): void {
    this.expectMore();
    switch (message.type) {
      case "hello":
        this.onHello(message);
        break;
      case "snapshot":
      case "update":
      case "ended":
        this.deliver(message);
        break;
      case "result":
        this.settle(message.id, (pending) => pending.resolve(message.result));
        break;
      case "error":
        this.onError(message);
        break;
      case "pong":
        break;
    }
  }

  private onHello(hello: Hello): void {
    if (hello.protocol !== PROTOCOL) {
      this.close();
      this.setState({ kind: "outdated", version: hello.version });
      return;
    }
    this.isReady = true;
    this.attempt = 0;
    this.lostSince = null;
    const sameJournal = this.journal === null || this.journal === hello.journal;
    this.journal = hello.journal;
    for (const subscription of this.streams.values()) {
      // A cursor of another journal says nothing about this one.
      if (!sameJournal) subscription.request.after = null;
      this.sendSubscription(subscription);
    }
    for (const pending of this.pending.values()) {
      if (pending.timer !== null) clearTimeout(pending.timer);
      pending.timer = null;
      this.send(pending.request);
    }
    this.setState({ kind: "open", hello });
  }

  private deliver(message: StreamMessage): void {
    const key = keyOf(message.stream, "id" in message ? message.id : "");
    const subscription = this.streams.get(key);
    if (subscription === undefined) return; // it crossed with our unsubscribe
    if (message.type === "ended") {
      this.streams.delete(key);
      subscription.onMessage(message);
      return;
    }
    if (message.type === "update" && (subscription.request.frames ? !("frames" in message) : subscription.expected))
      return;
    // A resumed stream must continue from the cursor that this page has; otherwise changes would be applied twice.
    if (isResumedSnapshot(message) && message.cursor !== subscription.request.after) {
      this.sendSubscription(subscription);
      return;
    }
    subscription.expected = false;
    subscription.request.after = message.cursor;
    subscription.onMessage(message);
  }

  private sendSubscription(subscription: ActiveSubscription): void {
    subscription.expected = true;
    this.send(subscription.request);
  }

  private onError({ id, error }: ErrorMessage): void {
    if (id !== null) this.settle(id, (pending) => pending.reject(new RequestError(error)));
    if (error.kind !== "unauthorized") return;
    this.close();
    this.setState({ kind: "signed_out" });
  }

  private settle(id: string, act: (pending: PendingRequest) => void): void {
    const pending = this.pending.get(id);
    if (pending === undefined) return;
    this.pending.delete(id);
    if (pending.timer !== null) clearTimeout(pending.timer);
    act(pending);
  }

  // -- coming and going

  private onClosed(): void {
    this.socket = null;
    this.stopTimers();
    const reached = this.isReady;
    this.isReady = false;
    this.lostSince ??= this.environment.now();
    for (const pending of this.pending.values()) this.giveUpLater(pending);
    const wait = retryDelayMs(this.attempt++, this.environment.random());
    this.retry = setTimeout(this.connect, wait);
    this.setState({ kind: "lost", since: this.lostSince, retryAt: this.environment.now() + wait });
    if (!reached) void this.askWhetherSignedIn();
  }

  private async askWhetherSignedIn(): Promise<void> {
    if ((await this.environment.signedIn()) || this.isReady) return;
    this.stopTimers();
    this.setState({ kind: "signed_out" });
  }

  private expectMore(): void {
    if (this.ping !== null) clearTimeout(this.ping);
    this.ping = setTimeout(() => {
      this.send({ type: "ping" });
      this.dropAfter(PONG_TIMEOUT_MS);
    }, PING_INTERVAL_MS);
  }

  /** Drops the connection unless a message comes before: a broken socket may take minutes to close by itself. */
  private dropAfter(wait: number): void {
    if (this.ping !== null) clearTimeout(this.ping);
    this.ping = setTimeout(() => this.drop(), wait);
  }

  private drop(): void {
    const socket = this.socket;
    if (socket === null) return;
    socket.onclose = null;
    socket.close();
    this.onClosed();
  }

  private stopTimers(): void {
    if (this.ping !== null) clearTimeout(this.ping);
    if (this.retry !== null) clearTimeout(this.retry);
    this.ping = null;
    this.retry = null;
  }

  private send(message: FromClient): void {
    if (this.isReady) this.socket?.send(JSON.stringify(message));
  }

  private setState(state: ConnectionState): void {
    this.state = state;
    for (const watcher of this.watchers) watcher();
  }
}

function isResumedSnapshot(message: Snapshot | Update): boolean {
  return message.type === "snapshot" && message.stream === "session" && message.resumed;
}

function keyOf(stream: Stream, id: string): string {
  return `${stream} ${id}`;
}
