import { expect, test } from "vitest";

import type { HistoryPage, Row, Rows, SessionSnapshot, SessionUpdate, SessionDetails } from "../protocol";
import { RowBuilder } from "../dev/rowBuilder";
import { prependHistory, applySnapshot, trimRows, applyUpdate } from "./conversation";
import type { ConversationState } from "./conversation";
import { NO_ROWS, TABLES } from "./tables";
import vectors from "./vectors.json";

// Made by the bridge itself: scripts/generate_page_vectors.py.
interface Vectors {
  snapshots: readonly { after: number; whole: SessionSnapshot; newest: SessionSnapshot }[];
  updates: readonly SessionUpdate[];
  rows: Rows;
  details: SessionDetails;
}

const { snapshots, updates, rows, details } = vectors as unknown as Vectors;

/** Numbers that look random and are the same each time. */
function* numbers(seed: number): Generator<number, never> {
  for (;;) {
    seed = (seed * 1_103_515_245 + 12_345) % 2 ** 31;
    yield seed;
  }
}

function expectTheEnd(known: ConversationState): void {
  expect(known.rows).toEqual(rows);
  expect(known.details).toEqual(details);
}

test.each(snapshots)("a page that comes after $after messages has the rows that the bridge has", ({ after, whole }) => {
  expectTheEnd(updates.slice(after).reduce(applyUpdate, applySnapshot(null, whole)));
});

test("at every moment the page has the rows that the bridge has at that moment", () => {
  const first = snapshots[0] as (typeof snapshots)[number];
  for (const { after, whole } of snapshots) {
    const known = updates.slice(first.after, after).reduce(applyUpdate, applySnapshot(null, first.whole));
    expect(known.rows).toEqual(whole.rows);
  }
});

test("a change of a row that was never loaded leaves no gap behind it", () => {
  const { newest, whole } = snapshots.at(-1) as (typeof snapshots)[number];
  const known = applySnapshot(null, newest);
  const row = whole.rows.messages.find(({ position }) => position < newest.before);
  if (row === undefined) throw new Error("the vectors have no older message");
  const after = applyUpdate(known, {
    type: "update",
    stream: "session",
    id: "s1",
    cursor: "x",
    changes: [{ op: "put", row }],
  });
  expect(after.rows).toEqual(known.rows);
});

test("however often the page reconnects, by cursor or by snapshot, it ends with the same rows", () => {
  for (let seed = 1; seed <= 200; seed++) {
    const next = numbers(seed);
    const first = snapshots[0] as (typeof snapshots)[number];
    let known = applySnapshot(null, first.whole);
    let at = first.after;
    while (at < updates.length) {
      const kind = next.next().value % 10;
      const later = snapshots.filter(({ after }) => after >= at);
      const fresh = later[next.next().value % Math.max(1, later.length)];
      if (kind === 0 && fresh !== undefined) {
        // It was away for so long that it needs a full snapshot.
        known = applySnapshot(known, fresh.whole);
        at = fresh.after;
      } else if (kind === 1) {
        known = applySnapshot(known, { ...first.whole, ...known, type: "snapshot", resumed: true, rows: NO_ROWS });
      } else {
        known = applyUpdate(known, updates[at++] as SessionUpdate);
      }
    }
    expectTheEnd(known);
  }
});

test("older rows that are loaded later are complete, whatever came in between", () => {
  for (const early of snapshots.filter(({ newest }) => newest.more)) {
    for (const later of snapshots.filter(({ after }) => after >= early.after)) {
      let known = updates.slice(early.after, later.after).reduce(applyUpdate, applySnapshot(null, early.newest));
      known = prependHistory(known, history(later.whole.rows, known.before));
      expectTheEnd(updates.slice(later.after).reduce(applyUpdate, known));
    }
  }
});

test("a state that is shown is never changed under the reader", () => {
  const first = snapshots[0] as (typeof snapshots)[number];
  const shown = applySnapshot(null, first.whole);
  const copy = structuredClone(shown);
  updates.slice(first.after).reduce(applyUpdate, shown);
  expect(shown).toEqual(copy);
});

test("text that is appended leaves the other rows as they are, so that only one is rendered again", () => {
  const known = applySnapshot(null, (snapshots.at(-1) as (typeof snapshots)[number]).whole);
  const last = known.rows.messages.at(-1);
  const change = { op: "append", message_id: last?.id ?? "", text: "!", blocks: [], shortened: false } as const;
  const after = applyUpdate(known, { type: "update", stream: "session", id: "s1", cursor: "x", changes: [change] });
  expect(after.rows.messages.at(-1)?.text).toBe(`${last?.text}!`);
  expect(after.rows.messages[0]).toBe(known.rows.messages[0]);
  expect(after.rows.tool_calls).toBe(known.rows.tool_calls);
});

// -- trimming

/** A session of so many runs, each with a prompt and an answer; the last one is still running. */
function long(runs: number): { made: RowBuilder; known: ConversationState } {
  const made = new RowBuilder();
  for (let at = 1; at <= runs; at++) {
    const run = made.run({ status: at === runs ? "running" : "success" });
    made.message("user", `prompt ${at}`, { run_id: run.id });
    made.message("assistant", `answer ${at}`, { run_id: run.id });
  }
  const first = (snapshots[0] as (typeof snapshots)[number]).whole;
  return { made, known: { ...applySnapshot(null, first), rows: made.rows, more: false, before: 0 } };
}

test("of a long conversation the newest rows stay, and it is known where they begin", () => {
  const { known } = long(1000);
  const less = trimRows(known);
  const positions = less.rows.messages.map(({ position }) => position);
  expect(less.more).toBe(true);
  expect(Math.min(...positions)).toBeGreaterThanOrEqual(less.before);
  expect(less.rows.messages.at(-1)).toBe(known.rows.messages.at(-1));
  expect(less.rows.messages.length + less.rows.runs.length).toBeLessThan(500);
  expect(trimRows(less)).toBe(less);
});

test("dropped rows that are loaded again restore the conversation", () => {
  const { known } = long(1000);
  const less = trimRows(known);
  expect(prependHistory(less, history(known.rows, less.before)).rows).toEqual(known.rows);
});

test("pending requests and unfinished rows are never dropped, and still change", () => {
  const { made, known } = long(1);
  const [run] = known.rows.runs;
  const call = made.call("execute", "make", { run_id: run?.id ?? "", status: "in_progress", ended_time: null });
  const permission = made.permission("May I?", { run_id: run?.id ?? "", outcome: "pending" });
  for (let at = 0; at < 1000; at++) made.message("assistant", `${at}`, { run_id: run?.id ?? "" });
  const less = trimRows({ ...known, rows: made.rows });
  expect(less.rows.runs.map(({ id }) => id)).toEqual([run?.id]);
  expect(less.rows.permissions.map(({ id }) => id)).toEqual([permission.id]);
  const row = { ...call, status: "completed" };
  const change = { op: "put", row } as const;
  const after = applyUpdate(less, { type: "update", stream: "session", id: "s1", cursor: "x", changes: [change] });
  expect(after.rows.tool_calls).toEqual([row]);
  const again = prependHistory(after, history({ ...made.rows, tool_calls: [call] }, less.before));
  expect(again.rows.tool_calls).toEqual([row]);
  expect(again.rows.messages).toHaveLength(1002);
});

/** The server's answer to `session.history`, in one page. */
function history(all: Rows, before: number): HistoryPage {
  const chosen = TABLES.map((table) => {
    const rows: readonly Row[] = all[table];
    return [table, rows.filter((row) => "position" in row && row.position < before)];
  });
  return { rows: Object.fromEntries(chosen) as Rows, more: false, before: 0 };
}

const update = (changes: SessionUpdate["changes"]): SessionUpdate => ({
  type: "update",
  stream: "session",
  id: "s1",
  cursor: "x",
  changes,
});
const append = (message_id: string, text: string, shortened = false): SessionUpdate =>
  update([{ op: "append", message_id, text, blocks: [], shortened }]);

test("nothing is appended after a part that was left out", () => {
  const builder = new RowBuilder();
  const message = builder.message("assistant", "one ", { ended: false });
  const first = applySnapshot(null, { ...(snapshots[0] as (typeof snapshots)[number]).whole, rows: builder.rows });
  const cut = [append(message.id, "two ", true), append(message.id, "four")].reduce(applyUpdate, first);
  expect(cut.rows.messages).toEqual([{ ...message, text: "one two ", shortened: true }]);
  const endless = applyUpdate(first, append(message.id, "x".repeat(2_000_000)));
  expect(endless.rows.messages).toEqual([{ ...message, shortened: true }]);
});

test("a message that was followed to its end keeps what the server would leave out", () => {
  const builder = new RowBuilder();
  const message = builder.message("assistant", "one ", { ended: false });
  const first = applySnapshot(null, { ...(snapshots[0] as (typeof snapshots)[number]).whole, rows: builder.rows });
  const put = update([{ op: "put", row: { ...message, text: "one t", ended: true, shortened: true } }]);
  const followed = [append(message.id, "two three"), put].reduce(applyUpdate, first);
  expect(followed.rows.messages).toEqual([{ ...message, text: "one two three", ended: true }]);
  expect(applyUpdate(first, put).rows.messages).toEqual([{ ...message, text: "one t", ended: true, shortened: true }]);
});
