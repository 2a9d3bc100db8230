import { expect, test } from "vitest";

import { DECIDED, RowBuilder } from "../dev/rowBuilder";
import { ItemBuilder, type Item, type OpenState } from "./items";

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
  new ItemBuilder().of(builder.rows, opened, null).map(outline);

test("rows of all tables are in the order of their positions, and each run has its end", () => {
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

test("more than three small calls in a row are one line, which can be expanded", () => {
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

test("while a run goes on, its last small calls are shown one by one", () => {
  const builder = new RowBuilder();
  builder.run();
  for (let at = 0; at < 8; at++) builder.call("read", `r${at}`);
  expect(shown(builder)).toEqual(["group of 5", "done r5", "done r6", "done r7"]);
});

test("a small call that failed is not grouped", () => {
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

test("a pending permission has a card, and an answered one is shown by its call", () => {
  const builder = new RowBuilder();
  builder.run();
  const call = builder.call("execute", "rm", { status: "pending", ended_time: null });
  const permission = builder.permission("May I rm?", { tool_call_row: call.id });
  expect(shown(builder)).toEqual(["waiting rm", "asks May I rm?"]);
  builder.put({ ...permission, outcome: "selected", option_id: "no", ...DECIDED, decision: "deny" });
  builder.put({ ...call, status: "failed" });
  expect(shown(builder)).toEqual(["denied rm"]);
});

test("number keys answer only the first pending permission", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.permission("one");
  builder.permission("two");
  const keys = new ItemBuilder()
    .of(builder.rows, none, null)
    .flatMap((item) => (item.kind === "permission" ? [item.keys] : []));
  expect(keys).toEqual([true, false]);
});

test("the files and the terminal of a call are no steps of their own", () => {
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

test("a call that was running when its run was interrupted is not shown as running", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.call("execute", "make", { status: "in_progress", ended_time: null });
  builder.put({ ...run, status: "interrupted" });
  const items = new ItemBuilder().of(builder.rows, none, null);
  expect(items[0]).toMatchObject({ kind: "step", cut: true });
});

test("a prompt that no run answers comes after the end of the run before it", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "do it");
  builder.message("assistant", "done");
  builder.put({ ...run, status: "success" });
  builder.message("user", "/exit", { run_id: null });
  builder.message("assistant", "See you!", { run_id: null });
  expect(shown(builder)).toEqual(["user do it", "text done", "end success", "user /exit", "text See you!"]);
  const items = new ItemBuilder();
  const before = items.of(builder.rows, none, null);
  builder.run();
  builder.message("user", "again");
  const after = items.of(builder.rows, none, null);
  expect(before.map((item, index) => after[index] === item)).toEqual(before.map(() => true));
});

test("a run that ended without a message is silent", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "hello?");
  builder.put({ ...run, status: "success", stop_reason: "end_turn" });
  const end = () => new ItemBuilder().of(builder.rows, none, null).at(-1);
  expect(end()).toMatchObject({ kind: "end", isSilent: true });
  builder.message("assistant", "here");
  expect(end()).toMatchObject({ kind: "end", isSilent: false });
});

test("an item that did not change is the same object, so that it is not rendered again", () => {
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
  const before = items.of(builder.rows, none, null);
  for (let chunk = 0; chunk < 5; chunk++) {
    message = builder.put({ ...message, text: `${message.text}more words ` });
    items.of(builder.rows, none, null);
  }
  const after = items.of(builder.rows, none, null);
  const changed = after.filter((item, at) => item !== before[at]);
  expect(after.length).toBe(before.length);
  expect(changed.map((item) => item.kind)).toEqual(["text"]);
  expect(changed[0]).toBe(after.at(-1));
});

test("a message that has just begun is shown, and an empty one that ended is not", () => {
  const builder = new RowBuilder();
  builder.run();
  const message = builder.message("assistant", "", { ended: false });
  expect(shown(builder)).toEqual(["text "]);
  builder.put({ ...message, ended: true });
  builder.message("assistant", "x");
  expect(shown(builder)).toEqual(["text x"]);
});

test("a step that the reader expanded stays expanded when it is done, and a collapsed one stays collapsed", () => {
  const builder = new RowBuilder();
  builder.run();
  const diff = { type: "diff" as const, path: "a", old_text: null, new_text: "x" };
  const call = builder.call("edit", "edit", { status: "in_progress", ended_time: null, content: [diff] });
  const isOpen = (opened: OpenState) =>
    new ItemBuilder().of(builder.rows, opened, null).map((item) => "open" in item && item.open);
  expect(isOpen(none)).toEqual([false]);
  expect(isOpen(open(call.id))).toEqual([true]);
  builder.put({ ...call, status: "completed", ended_time: call.time + 1 });
  expect(isOpen(none)).toEqual([true]);
  expect(isOpen(open(call.id))).toEqual([true]);
  expect(isOpen(new Map([[call.id, false]]))).toEqual([false]);
});

test("a notice of the agent is shown where it came", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.message("user", "go on");
  builder.notice("Nearly full", { severity: "warning" });
  builder.message("assistant", "Done.");
  expect(shown(builder)).toContain("notice Nearly full");
});

test("a command that failed looks failed, though the agent calls it completed", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.call("execute", "false", { exit_code: 1 });
  builder.call("execute", "true", { exit_code: 0 });
  builder.call("execute", "make", { raw_output: { exitCode: 2 } });
  builder.call("execute", "sleep", { signal: "SIGTERM" });
  const steps = new ItemBuilder()
    .of(builder.rows, none, null)
    .flatMap((item) => (item.kind === "step" ? [`${item.step.state} ${item.step.failure}`] : []));
  expect(steps).toEqual(["failed exit 1", "done ", "failed exit 2", "failed SIGTERM"]);
});

test("a step does not count the time that the user took to answer", () => {
  const builder = new RowBuilder();
  builder.run();
  const call = builder.call("edit", "edit a");
  const answered = { outcome: "selected", option_id: "once", ...DECIDED, decided_by: "person" } as const;
  const permission = builder.permission("May I?", { tool_call_row: call.id, ...answered });
  builder.put({ ...permission, resolved_time: permission.time + 26 });
  const waited = new ItemBuilder()
    .of(builder.rows, none, null)
    .flatMap((item) => (item.kind === "step" ? [item.step.waited] : []));
  expect(waited).toEqual([26]);
});
