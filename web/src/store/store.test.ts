import { beforeEach, expect, test } from "vitest";

import type { Socket, StreamMessage, Subscription } from "../socket/socket";
import { Store } from "./store";
import vectors from "./vectors.json";

const snapshot = vectors.snapshots[0]?.whole as unknown as StreamMessage;
const updates = vectors.updates as unknown as readonly StreamMessage[];

let frames: (() => void)[];
let tell: (message: StreamMessage) => void;
let subscribed: Subscription[];
let store: Store;

beforeEach(() => {
  frames = [];
  subscribed = [];
  const socket = {
    current: () => ({ kind: "connecting" }),
    watch: () => () => undefined,
    subscribe: (_stream: string, _id: string, subscription: Subscription) => {
      subscribed.push(subscription);
      tell = subscription.onMessage;
      return () => undefined;
    },
  };
  store = new Store(socket as unknown as Socket, (act) => frames.push(act));
});

function draw(): void {
  for (const act of frames.splice(0)) act();
}

test("all messages between two frames of the screen are shown at once", () => {
  let shown = 0;
  store.watch(() => shown++);
  store.follow("s1");
  tell(snapshot);
  for (const message of updates.slice(1)) tell(message);
  expect(frames).toHaveLength(1);
  expect(shown).toBe(0);
  draw();
  expect(shown).toBe(1);
  expect(store.current().conversations.get("s1")?.rows).toEqual(vectors.rows);
});

test("a conversation that is followed again continues after the last message, rendered or not", () => {
  store.follow("s1");
  tell(snapshot);
  tell(updates[1] as StreamMessage);
  store.follow("s1");
  expect(subscribed.at(-1)?.after).toBe(vectors.updates[1]?.cursor);
});

test("no rows of a conversation are dropped while someone reads further up", () => {
  store.follow("s1");
  tell(snapshot);
  draw();
  const put = (position: number) => {
    const row = { ...vectors.rows.messages[0], id: `m-${position}`, position };
    tell({
      type: "update",
      stream: "session",
      id: "s1",
      cursor: `c${position}`,
      changes: [{ op: "put", row }],
    } as StreamMessage);
  };
  const count = () => store.current().conversations.get("s1")?.rows.messages.length ?? 0;
  store.hold("s1", true);
  for (let at = 0; at < 1000; at++) put(1_000_000 + at);
  draw();
  expect(count()).toBeGreaterThanOrEqual(1000);
  store.hold("s1", false);
  put(2_000_000);
  draw();
  expect(count()).toBeLessThan(500);
});
