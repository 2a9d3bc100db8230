import { expect, test } from "vitest";

import { RowBuilder } from "../dev/rowBuilder";
import { changesOf } from "./changes";

const diff = (path: string, old_text: string | null, new_text: string) => ({
  type: "diff" as const,
  path,
  old_text,
  new_text,
});

test("edits that go on from each other are one change of the file", () => {
  const made = new RowBuilder();
  made.run();
  made.call("edit", "one", { content: [diff("a.py", "1\n", "2\n")] });
  made.call("edit", "two", { content: [diff("a.py", "2\n", "3\n4\n")] });
  expect(changesOf(made.rows)).toMatchObject([
    { path: "a.py", added: 2, removed: 1, created: false, diffs: [{ old_text: "1\n", new_text: "3\n4\n" }] },
  ]);
});

test("edits of parts of a file stay apart", () => {
  const made = new RowBuilder();
  made.call("edit", "one", { content: [diff("a.py", "x\n", "y\n")] });
  made.call("edit", "two", { content: [diff("a.py", "p\n", "q\n")] });
  expect(changesOf(made.rows)[0]?.diffs.length).toBe(2);
});

test("what a tool says it changed and what it wrote through us counts once", () => {
  const made = new RowBuilder();
  made.call("edit", "one", { content: [diff("a.py", null, "x\n")] });
  made.file("write", "a.py", { diff: diff("a.py", null, "x\n") });
  expect(changesOf(made.rows)).toMatchObject([{ added: 1, created: true }]);
});

test("what failed or was denied changed nothing", () => {
  const made = new RowBuilder();
  made.call("edit", "one", { status: "failed", content: [diff("a.py", "x\n", "y\n")] });
  made.file("write", "b.py", { status: "denied", diff: diff("b.py", null, "x\n") });
  expect(changesOf(made.rows)).toEqual([]);
});

test("changes can be those of one run, the last changed file first", () => {
  const made = new RowBuilder();
  const first = made.run();
  made.call("edit", "one", { content: [diff("a.py", "1\n", "2\n")] });
  made.call("edit", "two", { content: [diff("b.py", "1\n", "2\n")] });
  made.run();
  made.call("edit", "three", { content: [diff("a.py", "7\n", "8\n")] });
  expect(changesOf(made.rows, first.id).map((file) => file.path)).toEqual(["b.py", "a.py"]);
  expect(changesOf(made.rows).map((file) => file.path)).toEqual(["a.py", "b.py"]);
});

test("what was shown when the agent permission counts where it tells no diff of what it did", () => {
  const made = new RowBuilder();
  const call = made.call("edit", "one", { content: [] });
  const permission = { tool_call_row: call.id, content: [diff("a.py", "", "x\n")] };
  made.permission("one", { ...permission, outcome: "selected", option_id: "no" });
  expect(changesOf(made.rows)).toEqual([]);
  made.permission("one", { ...permission, outcome: "selected", option_id: "once" });
  expect(changesOf(made.rows)).toMatchObject([{ path: "a.py", added: 1 }]);
  made.file("write", "a.py", { diff: diff("a.py", null, "x\ny\n") });
  expect(changesOf(made.rows)).toMatchObject([{ path: "a.py", added: 2 }]);
});
