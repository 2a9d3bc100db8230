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

const shown = (made: RowBuilder, opened: OpenState = none) =>
  new ItemBuilder().of(buildSegments(made.rows), opened, null).map(outline);

test("rows of all tables stand in the order of their places, each run with its end", () => {
  const made = new RowBuilder();
  const run = made.run();
  made.message("user", "do it");
  made.message("thought", "hm");
  made.call("edit", "edit a");
  made.message("assistant", "done");
  made.put({ ...run, status: "success" });
  made.run();
  made.message("user", "more");
  expect(shown(made)).toEqual(["user do it", "thought hm", "done edit a", "text done", "end success", "user more"]);
});

test("more than three small calls in a row are outline in one line, that opens", () => {
  const made = new RowBuilder();
  const run = made.run();
  const first = made.call("read", "r1");
  for (const title of ["r2", "r3", "r4"]) made.call("read", title);
  made.call("execute", "make");
  made.call("read", "r5");
  made.put({ ...run, status: "success" });
  expect(shown(made)).toEqual(["group of 4", "done make", "done r5", "end success"]);
  expect(shown(made, open(`group-${first.id}`))).toEqual([
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
  const made = new RowBuilder();
  made.run();
  for (let at = 0; at < 8; at++) made.call("read", `r${at}`);
  expect(shown(made)).toEqual(["group of 5", "done r5", "done r6", "done r7"]);
});

test("a small call that failed is not folded away", () => {
  const made = new RowBuilder();
  const run = made.run();
  for (let at = 0; at < 9; at++) made.call("read", `r${at}`, at === 4 ? { status: "failed" } : {});
  made.put({ ...run, status: "success" });
  expect(shown(made)).toEqual(["group of 4", "failed r4", "group of 4", "end success"]);
});

test("a sub-agent's calls are under the call that started it", () => {
  const made = new RowBuilder();
  made.run();
  const task = made.call("think", "task", { status: "in_progress", ended_time: null });
  const inner = made.call("think", "inner task", { parent_id: task.tool_call_id });
  made.call("read", "r1", { parent_id: inner.tool_call_id });
  made.call("execute", "beside");
  expect(shown(made)).toEqual(["running task", "done beside"]);
  expect(shown(made, open(task.id, inner.id))).toEqual([
    "running task",
    "  done inner task",
    "    done r1",
    "done beside",
  ]);
});

test("calls that name each other as their parents are still shown", () => {
  const made = new RowBuilder();
  made.run();
  made.call("execute", "a", { tool_call_id: "A", parent_id: "B" });
  made.call("execute", "b", { tool_call_id: "B", parent_id: "A" });
  made.call("execute", "c", { tool_call_id: "C", parent_id: "C" });
  made.call("execute", "d", { parent_id: "unknown" });
  expect(shown(made).sort()).toEqual(["done a", "done b", "done c", "done d"]);
});

test("what waits for an answer has a card, and what was answered is outline by its call", () => {
  const made = new RowBuilder();
  made.run();
  const call = made.call("execute", "rm", { status: "pending", ended_time: null });
  const permission = made.permission("May I rm?", { tool_call_row: call.id });
  expect(shown(made)).toEqual(["waiting rm", "asks May I rm?"]);
  made.put({ ...permission, outcome: "selected", option_id: "no", ...DECIDED, decision: "deny" });
  made.put({ ...call, status: "failed" });
  expect(shown(made)).toEqual(["denied rm"]);
});

test("only the first that waits is answered by number keys", () => {
  const made = new RowBuilder();
  made.run();
  made.permission("one");
  made.permission("two");
  const keys = new ItemBuilder()
    .of(buildSegments(made.rows), none, null)
    .flatMap((item) => (item.kind === "permission" ? [item.keys] : []));
  expect(keys).toEqual([true, false]);
});

test("a file that was written for a call, and the terminal of a call, are no steps of their own", () => {
  const made = new RowBuilder();
  made.run();
  const edit = made.call("edit", "edit a.py", {
    status: "in_progress",
    ended_time: null,
    locations: [{ path: "/w/a.py", line: null }],
  });
  made.file("write", "/w/a.py");
  made.put({ ...edit, status: "completed", ended_time: edit.time + 5 });
  made.call("execute", "make", { content: [{ type: "terminal", terminal_id: "T" }] });
  made.terminal("make", [], { terminal_id: "T" });
  made.file("read", "/w/other.py");
  expect(shown(made)).toEqual(["done edit a.py", "done make", "done Read /w/other.py"]);
});

test("a call that was running when its run was cut is not shown as running", () => {
  const made = new RowBuilder();
  const run = made.run();
  made.call("execute", "make", { status: "in_progress", ended_time: null });
  made.put({ ...run, status: "interrupted" });
  const items = new ItemBuilder().of(buildSegments(made.rows), none, null);
  expect(items[0]).toMatchObject({ kind: "step", cut: true });
});

test("words that no run answers stand after the end of the run before them", () => {
  const made = new RowBuilder();
  const run = made.run();
  made.message("user", "do it");
  made.message("assistant", "done");
  made.put({ ...run, status: "success" });
  made.message("user", "/exit", { run_id: null });
  made.message("assistant", "See you!", { run_id: null });
  expect(shown(made)).toEqual(["user do it", "text done", "end success", "user /exit", "text See you!"]);
  const segments = buildSegments(made.rows);
  made.run();
  made.message("user", "again");
  expect(buildSegments(made.rows, segments).slice(0, 2)).toEqual(segments);
  expect(buildSegments(made.rows, segments)[1]).toBe(segments[1]);
});

test("a run that ended without a word is outline to be so", () => {
  const made = new RowBuilder();
  const run = made.run();
  made.message("user", "hello?");
  made.put({ ...run, status: "success", stop_reason: "end_turn" });
  expect(buildSegments(made.rows)[0]?.isSilent).toBe(true);
  made.message("assistant", "here");
  expect(buildSegments(made.rows)[0]?.isSilent).toBe(false);
});

test("what did not change is the same object, so that it is not drawn again", () => {
  const made = new RowBuilder();
  const first = made.run();
  made.message("user", "one");
  made.call("edit", "edit");
  made.put({ ...first, status: "success" });
  made.run();
  made.message("user", "two");
  made.call("execute", "make", { status: "in_progress", ended_time: null });
  const long = `${"Words of a paragraph. ".repeat(30)}\n\n`;
  let message = made.message("assistant", long.repeat(10), { ended: false });
  const items = new ItemBuilder();
  let segments = buildSegments(made.rows);
  const before = items.of(segments, none, null);
  for (let chunk = 0; chunk < 5; chunk++) {
    message = made.put({ ...message, text: `${message.text}more words ` });
    segments = buildSegments(made.rows, segments);
  }
  const after = items.of(segments, none, null);
  const changed = after.filter((item, at) => item !== before[at]);
  expect(after.length).toBe(before.length);
  expect(changed.map((item) => item.kind)).toEqual(["text"]);
  expect(changed[0]).toBe(after.at(-1));
});

test("a message that is only being begun is there, and an empty one that ended is not", () => {
  const made = new RowBuilder();
  made.run();
  const message = made.message("assistant", "", { ended: false });
  expect(shown(made)).toEqual(["text "]);
  made.put({ ...message, ended: true });
  made.message("assistant", "x");
  expect(shown(made)).toEqual(["text x"]);
});

test("what a reader opened stays open when it is done, and what they closed stays closed", () => {
  const made = new RowBuilder();
  made.run();
  const diff = { type: "diff" as const, path: "a", old_text: null, new_text: "x" };
  const call = made.call("edit", "edit", { status: "in_progress", ended_time: null, content: [diff] });
  const isOpen = (opened: OpenState) =>
    new ItemBuilder().of(buildSegments(made.rows), opened, null).map((item) => "open" in item && item.open);
  expect(isOpen(none)).toEqual([false]);
  expect(isOpen(open(call.id))).toEqual([true]);
  made.put({ ...call, status: "completed", ended_time: call.time + 1 });
  expect(isOpen(none)).toEqual([true]);
  expect(isOpen(open(call.id))).toEqual([true]);
  expect(isOpen(new Map([[call.id, false]]))).toEqual([false]);
});

test("what the agent tells of itself stands where it was told", () => {
  const made = new RowBuilder();
  made.run();
  made.message("user", "go on");
  made.notice("Nearly full", { severity: "warning" });
  made.message("assistant", "Done.");
  expect(shown(made)).toContain("notice Nearly full");
});
