import { expect, test } from "vitest";

import { RowBuilder } from "../dev/rowBuilder";
import { filesOf, isOpen, shownTab, tabsOf, terminalsOf } from "./contents";
import { NO_EARLIER_CONTENTS } from "./earlierContents";

const PANEL = { file: null, tab: null, open: null };

test("tabs are there when there is something in them", () => {
  const builder = new RowBuilder();
  expect(tabsOf(builder.rows, PANEL)).toEqual(["details"]);
  builder.call("edit", "x", { content: [{ type: "diff", path: "a", old_text: null, new_text: "x" }] });
  builder.plan([{ content: "x", priority: "high", status: "pending" }]);
  builder.terminal("ls");
  expect(tabsOf(builder.rows, { file: { path: "a", line: 1 } })).toEqual([
    "changes",
    "plan",
    "terminals",
    "file",
    "details",
  ]);
});

test("the panel is not there for details alone, unless someone opened it", () => {
  const builder = new RowBuilder();
  expect(isOpen(builder.rows, PANEL)).toBe(false);
  expect(isOpen(builder.rows, { ...PANEL, open: true })).toBe(true);
  builder.terminal("ls");
  expect(isOpen(builder.rows, PANEL)).toBe(true);
  expect(isOpen(builder.rows, { ...PANEL, open: false })).toBe(false);
});

test("a tab that has nothing in it any more gives way to the first that has", () => {
  expect(shownTab(["terminals", "details"], "plan")).toBe("terminals");
  expect(shownTab(["terminals", "details"], "details")).toBe("details");
});

test("what is in rows that are not here is told with what is in those that are", () => {
  const builder = new RowBuilder();
  builder.call("edit", "x", { content: [{ type: "diff", path: "a", old_text: "1\n", new_text: "2\n" }] });
  const gone = { ...builder.terminal("make"), output: null };
  const here = builder.terminal("ls");
  const rows = { ...builder.rows, terminals: [here] };
  const file = { added: 3, removed: 0, created: true, changes: 2 };
  const earlier = {
    ...NO_EARLIER_CONTENTS,
    files: [
      { ...file, path: "b" },
      { ...file, path: "a" },
    ],
    terminals: [gone, here],
  };
  expect(filesOf(rows, earlier, null)).toMatchObject([
    { path: "a", added: 4, removed: 1, created: true, elsewhere: 2, diffs: [{ new_text: "2\n" }] },
    { path: "b", added: 3, removed: 0, created: true, elsewhere: 2, diffs: [] },
  ]);
  expect(terminalsOf(rows, earlier).map(({ id }) => id)).toEqual([gone.id, here.id]);
  const nothing = new RowBuilder().rows;
  expect(tabsOf(nothing, PANEL, earlier)).toEqual(["changes", "terminals", "details"]);
  expect(isOpen(nothing, PANEL, earlier)).toBe(true);
});
