import { expect, test } from "vitest";

import { Made } from "../dev/made";
import { isOpen, shownTab, tabsOf } from "./contents";

const PANEL = { file: null, tab: null, open: null };

test("tabs are there when there is something in them", () => {
  const made = new Made();
  expect(tabsOf(made.rows, PANEL)).toEqual(["details"]);
  made.call("edit", "x", { content: [{ type: "diff", path: "a", old_text: null, new_text: "x" }] });
  made.plan([{ content: "x", priority: "high", status: "pending" }]);
  made.terminal("ls");
  expect(tabsOf(made.rows, { file: { path: "a", line: 1 } })).toEqual([
    "changes",
    "plan",
    "terminals",
    "file",
    "details",
  ]);
});

test("the panel is not there for details alone, unless someone opened it", () => {
  const made = new Made();
  expect(isOpen(made.rows, PANEL)).toBe(false);
  expect(isOpen(made.rows, { ...PANEL, open: true })).toBe(true);
  made.terminal("ls");
  expect(isOpen(made.rows, PANEL)).toBe(true);
  expect(isOpen(made.rows, { ...PANEL, open: false })).toBe(false);
});

test("a tab that has nothing in it any more gives way to the first that has", () => {
  expect(shownTab(["terminals", "details"], "plan")).toBe("terminals");
  expect(shownTab(["terminals", "details"], "details")).toBe("details");
});
