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
  const builder = new RowBuilder();
  builder.run();
  builder.call("edit", "one", { content: [diff("a.py", "1\n", "2\n")] });
  builder.call("edit", "two", { content: [diff("a.py", "2\n", "3\n4\n")] });
  expect(changesOf(builder.rows)).toMatchObject([
    { path: "a.py", added: 2, removed: 1, created: false, diffs: [{ old_text: "1\n", new_text: "3\n4\n" }] },
  ]);
});

test("edits of parts of a file stay apart", () => {
  const builder = new RowBuilder();
  builder.call("edit", "one", { content: [diff("a.py", "x\n", "y\n")] });
  builder.call("edit", "two", { content: [diff("a.py", "p\n", "q\n")] });
  expect(changesOf(builder.rows)[0]?.diffs.length).toBe(2);
});

test("what a tool says it changed and what it wrote through us counts once", () => {
  const builder = new RowBuilder();
  builder.call("edit", "one", { content: [diff("a.py", null, "x\n")] });
  builder.file("write", "a.py", { diff: diff("a.py", null, "x\n") });
  expect(changesOf(builder.rows)).toMatchObject([{ added: 1, created: true }]);
});

test("what failed or was denied changed nothing", () => {
  const builder = new RowBuilder();
  builder.call("edit", "one", { status: "failed", content: [diff("a.py", "x\n", "y\n")] });
  builder.file("write", "b.py", { status: "denied", diff: diff("b.py", null, "x\n") });
  expect(changesOf(builder.rows)).toEqual([]);
});

test("changes can be those of one run, the last changed file first", () => {
  const builder = new RowBuilder();
  const first = builder.run();
  builder.call("edit", "one", { content: [diff("a.py", "1\n", "2\n")] });
  builder.call("edit", "two", { content: [diff("b.py", "1\n", "2\n")] });
  builder.run();
  builder.call("edit", "three", { content: [diff("a.py", "7\n", "8\n")] });
  expect(changesOf(builder.rows, first.id).map((file) => file.path)).toEqual(["b.py", "a.py"]);
  expect(changesOf(builder.rows).map((file) => file.path)).toEqual(["a.py", "b.py"]);
});

test("what was shown when the agent permission counts where it tells no diff of what it did", () => {
  const builder = new RowBuilder();
  const call = builder.call("edit", "one", { content: [] });
  const permission = { tool_call_row: call.id, content: [diff("a.py", "", "x\n")] };
  builder.permission("one", { ...permission, outcome: "selected", option_id: "no" });
  expect(changesOf(builder.rows)).toEqual([]);
  builder.permission("one", { ...permission, outcome: "selected", option_id: "once" });
  expect(changesOf(builder.rows)).toMatchObject([{ path: "a.py", added: 1 }]);
  builder.file("write", "a.py", { diff: diff("a.py", null, "x\ny\n") });
  expect(changesOf(builder.rows)).toMatchObject([{ path: "a.py", added: 2 }]);
});
