import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { PROTOCOL } from "../protocol";
import type { FromClient, Hello } from "../protocol";
import { RequestError } from "./requests";
import { Socket } from "./socket";
import type { StreamMessage } from "./socket";

/** The other end of a socket, as a test wants it. */
class Line {
  readonly sent: FromClient[] = [];
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onclose: (() => void) | null = null;
  closed = false;

  send(text: string): void {
    this.sent.push(JSON.parse(text) as FromClient);
  }

  close(): void {
    this.closed = true;
  }

  say(message: object): void {
    this.onmessage?.({ data: JSON.stringify(message) } as MessageEvent<string>);
  }

  greet(journal = "one", protocol = PROTOCOL): void {
    const limits = { message_bytes: 1, messages_per_second: 1, subscriptions: 1 };
    const hello: Hello = {
      type: "hello",
      version: "1",
      protocol,
      journal,
      cursor: "0",
      scope: "admin",
      capabilities: [],
      limits,
      time: 0,
    };
    this.say(hello);
  }

  of<T extends FromClient["type"]>(type: T): Extract<FromClient, { type: T }>[] {
    return this.sent.filter((message) => message.type === type) as Extract<FromClient, { type: T }>[];
  }
}

let lines: Line[];
let socket: Socket;
let known: boolean;

const line = () => lines.at(-1) as Line;
const update = (cursor: string) => ({ type: "update", stream: "session", id: "s1", cursor, changes: [] });
const snapshot = (cursor: string, resumed = false) => ({
  type: "snapshot",
  stream: "session",
  id: "s1",
  cursor,
  resumed,
});

beforeEach(() => {
  vi.useFakeTimers();
  lines = [];
  known = true;
  socket = new Socket("ws://here/v1/socket", {
    open: () => {
      lines.push(new Line());
      return line() as unknown as WebSocket;
    },
    now: () => 1000,
    random: () => 0,
    signedIn: () => Promise.resolve(known),
  });
  socket.connect();
});

afterEach(() => {
  socket.close();
  vi.useRealTimers();
});

function drop(): void {
  line().onclose?.();
}

function back(journal = "one"): void {
  vi.advanceTimersByTime(5_000);
  line().greet(journal);
}

test("nothing is sent before the server greets", () => {
  socket.subscribe("sessions", "", { onMessage: () => undefined });
  expect(line().sent).toEqual([]);
  line().greet();
  expect(line().of("subscribe")).toHaveLength(1);
});

test("after a reconnect a stream goes on behind the last cursor that was heard", () => {
  const heard: StreamMessage[] = [];
  socket.subscribe("session", "s1", { onMessage: (message) => heard.push(message) });
  line().greet();
  line().say(snapshot("6"));
  line().say(update("7"));
  drop();
  expect(socket.current().kind).toBe("lost");
  back();
  expect(lines).toHaveLength(2);
  expect(line().of("subscribe")[0]?.after).toBe("7");
  expect(heard).toHaveLength(2);
});

test("a cursor of another journal is not used", () => {
  socket.subscribe("session", "s1", { onMessage: () => undefined });
  line().greet("one");
  line().say(snapshot("7"));
  drop();
  back("two");
  expect(line().of("subscribe")[0]?.after).toBeNull();
});

test("a control without an answer is sent again under the same command id", async () => {
  line().greet();
  const done = socket.request("session.close", { session_id: "s1" });
  const first = line().of("session.close")[0];
  drop();
  back();
  const second = line().of("session.close")[0];
  expect(first?.command_id).toBeTruthy();
  expect(second).toEqual(first);
  line().say({ type: "result", id: second?.id, result: {} });
  await expect(done).resolves.toEqual({});
});

test("a read-only request has no command id", () => {
  line().greet();
  void socket.request("session.list", {});
  expect(line().of("session.list")[0]).not.toHaveProperty("command_id");
});

test("an error goes to its request, and to no other", async () => {
  line().greet();
  const bad = socket.request("session.close", { session_id: "s1" });
  const good = socket.request("session.close", { session_id: "s2" });
  const [first, second] = line().of("session.close");
  line().say({
    type: "error",
    id: first?.id,
    error: { kind: "conflict", message: "busy", guidance: "", field: null, retry_after: null },
  });
  line().say({ type: "result", id: second?.id, result: {} });
  await expect(bad).rejects.toBeInstanceOf(RequestError);
  await expect(good).resolves.toEqual({});
});

test("a request while the server is away fails, and says that it was not carried out", async () => {
  drop();
  const done = socket.request("session.close", { session_id: "s1" });
  const rejection = expect(done).rejects.toThrow("cannot be reached");
  vi.advanceTimersByTime(30_000);
  await rejection;
});

test("an agent that takes minutes to start is waited for while the link is open", async () => {
  line().greet();
  const opened = socket.request("session.open", { cwd: "/w" });
  for (let minute = 0; minute < 20; minute++) {
    vi.advanceTimersByTime(15_000);
    line().say({ type: "pong", time: 0 });
  }
  line().say({ type: "result", id: line().of("session.open")[0]?.id, result: { session_id: "s9" } });
  await expect(opened).resolves.toEqual({ session_id: "s9" });
});

test("late messages of an ended subscription do not reach a new one", () => {
  const heard: StreamMessage[] = [];
  line().greet();
  const leave = socket.subscribe("session", "s1", { onMessage: () => undefined });
  leave();
  socket.subscribe("session", "s1", { after: "7", onMessage: (message) => heard.push(message) });
  line().say(update("8"));
  expect(heard).toEqual([]);
  line().say(snapshot("7", true));
  line().say(update("8"));
  expect(heard).toHaveLength(2);
});

test("where two subscriptions to one stream crossed, nothing is rejection twice", () => {
  const cursors: string[] = [];
  line().greet();
  const leave = socket.subscribe("session", "s1", { after: "7", onMessage: () => undefined });
  leave();
  socket.subscribe("session", "s1", {
    after: "7",
    onMessage: (message) => "cursor" in message && cursors.push(message.cursor),
  });
  // The first subscription was answered before the server heard of the second.
  line().say(snapshot("7", true));
  line().say(update("8"));
  line().say(snapshot("7", true));
  line().say(update("8"));
  expect(line().of("subscribe").at(-1)?.after).toBe("8");
  line().say(snapshot("8", true));
  line().say(update("9"));
  expect(cursors).toEqual(["7", "8", "8", "9"]);
});

test("whose token was revoked is rejection so", async () => {
  line().greet();
  const done = socket.request("session.close", { session_id: "s1" });
  const error = {
    kind: "unauthorized",
    message: "the token was revoked",
    guidance: "",
    field: null,
    retry_after: null,
  };
  line().say({ type: "error", id: line().of("session.close")[0]?.id, error });
  await expect(done).rejects.toThrow("revoked");
  expect(socket.current().kind).toBe("signed_out");
});

test("a line that is silent and answers no ping is given up", () => {
  line().greet();
  vi.advanceTimersByTime(20_000);
  expect(line().of("ping")).toHaveLength(1);
  vi.advanceTimersByTime(10_000);
  expect(lines[0]?.closed).toBe(true);
  expect(socket.current().kind).toBe("lost");
});

test("a line that never opens is given up, and another one is tried", () => {
  vi.advanceTimersByTime(10_000);
  expect(socket.current().kind).toBe("lost");
  back();
  expect(lines).toHaveLength(2);
  expect(socket.current().kind).toBe("open");
});

test("a silently broken connection is noticed when someone looks at the page", () => {
  line().greet();
  socket.check();
  vi.advanceTimersByTime(3_000);
  expect(socket.current().kind).toBe("lost");
});

test("a line that still answers is kept when someone looks", () => {
  line().greet();
  socket.check();
  line().say({ type: "pong", time: 0 });
  vi.advanceTimersByTime(15_000);
  expect(socket.current().kind).toBe("open");
  expect(lines).toHaveLength(1);
});

test("a browser that the server does not know is rejection so, and does not knock for ever", async () => {
  known = false;
  drop();
  await vi.advanceTimersByTimeAsync(0);
  expect(socket.current().kind).toBe("signed_out");
  await vi.advanceTimersByTimeAsync(60_000);
  expect(lines).toHaveLength(1);
});

test("a server that speaks another protocol asks for a reload", () => {
  line().greet("one", PROTOCOL + 1);
  expect(socket.current().kind).toBe("outdated");
  expect(line().closed).toBe(true);
});
