import { expect, test } from "vitest";

import { RowBuilder } from "../dev/rowBuilder";
import { isOpen, shownTab, tabsOf, terminalsOf } from "./contents";
import { diffVersion, NO_SESSION_CHANGES, type SessionChanges } from "./served";

const PANEL = { file: null, tab: null, open: null };
const FILE = { path: "a", added: 3, removed: 0, created: true, changes: 2, position: 7 };
const CHANGES: SessionChanges = { ...NO_SESSION_CHANGES, files: [FILE] };

test("a tab is shown if it has contents", () => {
  const builder = new RowBuilder();
  expect(tabsOf(builder.rows, PANEL)).toEqual(["details"]);
  builder.plan([{ content: "x", priority: "high", status: "pending" }]);
  builder.terminal("ls");
  expect(tabsOf(builder.rows, { file: { path: "a", line: 1 } }, CHANGES)).toEqual([
    "changes",
    "plan",
    "terminals",
    "file",
    "details",
  ]);
});

test("the panel is not shown for details alone, unless someone opened it", () => {
  const builder = new RowBuilder();
  expect(isOpen(builder.rows, PANEL)).toBe(false);
  expect(isOpen(builder.rows, { ...PANEL, open: true })).toBe(true);
  builder.terminal("ls");
  expect(isOpen(builder.rows, PANEL)).toBe(true);
  expect(isOpen(builder.rows, { ...PANEL, open: false })).toBe(false);
});

test("if the chosen tab has no contents any more, the first one is shown", () => {
  expect(shownTab(["terminals", "details"], "plan")).toBe("terminals");
  expect(shownTab(["terminals", "details"], "details")).toBe("details");
});

test("terminals of rows that are not loaded come before those that are", () => {
  const builder = new RowBuilder();
  const earlier = { ...builder.terminal("make"), output: null };
  const loaded = builder.terminal("ls");
  const rows = { ...builder.rows, terminals: [loaded] };
  const changes = { ...CHANGES, terminals: [earlier, { ...loaded, output: null }] };
  expect(terminalsOf(rows, changes)).toEqual([earlier, loaded]);
  const nothing = new RowBuilder().rows;
  expect(tabsOf(nothing, PANEL, changes)).toEqual(["changes", "terminals", "details"]);
  expect(isOpen(nothing, PANEL, changes)).toBe(true);
});

test("while the changes of a session with diffs are loading, their tab is shown already", () => {
  const nothing = new RowBuilder().rows;
  expect(tabsOf(nothing, PANEL, { ...NO_SESSION_CHANGES, isLoading: true })).toEqual(["changes", "details"]);
});

test("the changes are requested again when a row with a diff changes, and not for other rows", () => {
  const diff = { type: "diff" as const, path: "a", old_text: null, new_text: "x" };
  const builder = new RowBuilder();
  builder.run();
  const read = builder.call("read", "r", { status: "in_progress" });
  expect(diffVersion(builder.rows)).toBe("");
  const versions = new Set<string>();
  const look = () => versions.add(diffVersion(builder.rows));
  const edit = builder.call("edit", "e", { status: "pending", content: [diff] });
  look();
  builder.put({ ...edit, status: "completed" });
  look();
  builder.file("write", "a", { diff });
  look();
  const permission = builder.permission("p", { tool_call_row: read.id, content: [diff] });
  look();
  builder.put({ ...permission, outcome: "selected" });
  look();
  builder.put({ ...read, status: "completed" });
  look();
  expect(versions.size).toBe(6);
  builder.call("read", "other");
  builder.message("assistant", "done");
  look();
  expect(versions.size).toBe(6);
});
