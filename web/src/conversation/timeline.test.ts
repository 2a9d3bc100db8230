import { expect, test } from "vitest";

import { DECIDED, RowBuilder } from "../dev/rowBuilder";
import { ItemBuilder, type Item, type OpenState } from "./items";
import { buildSegments } from "./timeline";

const none: OpenState = new Map();
const open = (...keys: string[]): OpenState => new Map(keys.map((key) => [key, true]));

function outline(item: Item): string {
  switch (item.kind) {
    case "user":
    case "thought":
      return `${item.kind} ${item.message.text}`;
    case "text":
      return `text ${item.text}`;
    case "step":
      return `${"  ".repeat(item.depth)}${item.step.state} ${item.step.title}`;
    case "group":
      return `group of ${item.steps.length}`;
    case "permission":
      return `asks ${item.permission.title}`;
    case "question":
      return `asks ${item.question.message}`;
    case "notice":
      return `notice ${item.notice.title}`;
    case "end":
      return `end ${item.run.status}`;
  }
}

const shown = (builder: RowBuilder, opened: OpenState = none) =>
  new ItemBuilder().of(buildSegments(builder.rows), opened, null).map(outline);

test("rows of all tables stand in the order of their places, each run with its end", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "do it");
  builder.message("thought", "hm");
  builder.call("edit", "edit a");
  builder.message("assistant", "done");
  builder.put({ ...run, status: "success" });
  builder.run();
  builder.message("user", "more");
  expect(shown(builder)).toEqual(["user do it", "thought hm", "done edit a", "text done", "end success", "user more"]);
});

test("more than three small calls in a row are outline in one line, that opens", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  const first = builder.call("read", "r1");
  for (const title of ["r2", "r3", "r4"]) builder.call("read", title);
  builder.call("execute", "make");
  builder.call("read", "r5");
  builder.put({ ...run, status: "success" });
  expect(shown(builder)).toEqual(["group of 4", "done make", "done r5", "end success"]);
  expect(shown(builder, open(`group-${first.id}`))).toEqual([
    "group of 4",
    "  done r1",
    "  done r2",
    "  done r3",
    "  done r4",
    "done make",
    "done r5",
    "end success",
  ]);
});

test("while a run goes on the last of its small calls stay in sight", () => {
  const builder = new RowBuilder();
  builder.run();
  for (let at = 0; at < 8; at++) builder.call("read", `r${at}`);
  expect(shown(builder)).toEqual(["group of 5", "done r5", "done r6", "done r7"]);
});

test("a small call that failed is not folded away", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  for (let at = 0; at < 9; at++) builder.call("read", `r${at}`, at === 4 ? { status: "failed" } : {});
  builder.put({ ...run, status: "success" });
  expect(shown(builder)).toEqual(["group of 4", "failed r4", "group of 4", "end success"]);
});

test("a sub-agent's calls are under the call that started it", () => {
  const builder = new RowBuilder();
  builder.run();
  const task = builder.call("think", "task", { status: "in_progress", ended_time: null });
  const inner = builder.call("think", "inner task", { parent_id: task.tool_call_id });
  builder.call("read", "r1", { parent_id: inner.tool_call_id });
  builder.call("execute", "beside");
  expect(shown(builder)).toEqual(["running task", "done beside"]);
  expect(shown(builder, open(task.id, inner.id))).toEqual([
    "running task",
    "  done inner task",
    "    done r1",
    "done beside",
  ]);
});

test("calls that name each other as their parents are still shown", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.call("execute", "a", { tool_call_id: "A", parent_id: "B" });
  builder.call("execute", "b", { tool_call_id: "B", parent_id: "A" });
  builder.call("execute", "c", { tool_call_id: "C", parent_id: "C" });
  builder.call("execute", "d", { parent_id: "unknown" });
  expect(shown(builder).sort()).toEqual(["done a", "done b", "done c", "done d"]);
});

test("what waits for an answer has a card, and what was answered is outline by its call", () => {
  const builder = new RowBuilder();
  builder.run();
  const call = builder.call("execute", "rm", { status: "pending", ended_time: null });
  const permission = builder.permission("May I rm?", { tool_call_row: call.id });
  expect(shown(builder)).toEqual(["waiting rm", "asks May I rm?"]);
  builder.put({ ...permission, outcome: "selected", option_id: "no", ...DECIDED, decision: "deny" });
  builder.put({ ...call, status: "failed" });
  expect(shown(builder)).toEqual(["denied rm"]);
});

test("only the first that waits is answered by number keys", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.permission("one");
  builder.permission("two");
  const keys = new ItemBuilder()
    .of(buildSegments(builder.rows), none, null)
    .flatMap((item) => (item.kind === "permission" ? [item.keys] : []));
  expect(keys).toEqual([true, false]);
});

test("a file that was written for a call, and the terminal of a call, are no steps of their own", () => {
  const builder = new RowBuilder();
  builder.run();
  const edit = builder.call("edit", "edit a.py", {
    status: "in_progress",
    ended_time: null,
    locations: [{ path: "/w/a.py", line: null }],
  });
  builder.file("write", "/w/a.py");
  builder.put({ ...edit, status: "completed", ended_time: edit.time + 5 });
  builder.call("execute", "make", { content: [{ type: "terminal", terminal_id: "T" }] });
  builder.terminal("make", [], { terminal_id: "T" });
  builder.file("read", "/w/other.py");
  expect(shown(builder)).toEqual(["done edit a.py", "done make", "done Read /w/other.py"]);
});

test("a call that was running when its run was cut is not shown as running", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.call("execute", "make", { status: "in_progress", ended_time: null });
  builder.put({ ...run, status: "interrupted" });
  const items = new ItemBuilder().of(buildSegments(builder.rows), none, null);
  expect(items[0]).toMatchObject({ kind: "step", cut: true });
});

test("words that no run answers stand after the end of the run before them", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "do it");
  builder.message("assistant", "done");
  builder.put({ ...run, status: "success" });
  builder.message("user", "/exit", { run_id: null });
  builder.message("assistant", "See you!", { run_id: null });
  expect(shown(builder)).toEqual(["user do it", "text done", "end success", "user /exit", "text See you!"]);
  const segments = buildSegments(builder.rows);
  builder.run();
  builder.message("user", "again");
  expect(buildSegments(builder.rows, segments).slice(0, 2)).toEqual(segments);
  expect(buildSegments(builder.rows, segments)[1]).toBe(segments[1]);
});

test("a run that ended without a word is outline to be so", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "hello?");
  builder.put({ ...run, status: "success", stop_reason: "end_turn" });
  expect(buildSegments(builder.rows)[0]?.isSilent).toBe(true);
  builder.message("assistant", "here");
  expect(buildSegments(builder.rows)[0]?.isSilent).toBe(false);
});

test("what did not change is the same object, so that it is not drawn again", () => {
  const builder = new RowBuilder();
  const first = builder.run();
  builder.message("user", "one");
  builder.call("edit", "edit");
  builder.put({ ...first, status: "success" });
  builder.run();
  builder.message("user", "two");
  builder.call("execute", "make", { status: "in_progress", ended_time: null });
  const long = `${"Words of a paragraph. ".repeat(30)}\n\n`;
  let message = builder.message("assistant", long.repeat(10), { ended: false });
  const items = new ItemBuilder();
  let segments = buildSegments(builder.rows);
  const before = items.of(segments, none, null);
  for (let chunk = 0; chunk < 5; chunk++) {
    message = builder.put({ ...message, text: `${message.text}more words ` });
    segments = buildSegments(builder.rows, segments);
  }
  const after = items.of(segments, none, null);
  const changed = after.filter((item, at) => item !== before[at]);
  expect(after.length).toBe(before.length);
  expect(changed.map((item) => item.kind)).toEqual(["text"]);
  expect(changed[0]).toBe(after.at(-1));
});

test("a message that is only being begun is there, and an empty one that ended is not", () => {
  const builder = new RowBuilder();
  builder.run();
  const message = builder.message("assistant", "", { ended: false });
  expect(shown(builder)).toEqual(["text "]);
  builder.put({ ...message, ended: true });
  builder.message("assistant", "x");
  expect(shown(builder)).toEqual(["text x"]);
});

test("what a reader opened stays open when it is done, and what they closed stays closed", () => {
  const builder = new RowBuilder();
  builder.run();
  const diff = { type: "diff" as const, path: "a", old_text: null, new_text: "x" };
  const call = builder.call("edit", "edit", { status: "in_progress", ended_time: null, content: [diff] });
  const isOpen = (opened: OpenState) =>
    new ItemBuilder().of(buildSegments(builder.rows), opened, null).map((item) => "open" in item && item.open);
  expect(isOpen(none)).toEqual([false]);
  expect(isOpen(open(call.id))).toEqual([true]);
  builder.put({ ...call, status: "completed", ended_time: call.time + 1 });
  expect(isOpen(none)).toEqual([true]);
  expect(isOpen(open(call.id))).toEqual([true]);
  expect(isOpen(new Map([[call.id, false]]))).toEqual([false]);
});

test("what the agent tells of itself stands where it was told", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.message("user", "go on");
  builder.notice("Nearly full", { severity: "warning" });
  builder.message("assistant", "Done.");
  expect(shown(builder)).toContain("notice Nearly full");
});
