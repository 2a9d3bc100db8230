// @vitest-environment happy-dom
import { afterEach, expect, test } from "vitest";

import { type Rendered, render } from "../dev/render";
import type { DiffItem } from "../protocol";
import { DiffView } from "./DiffView";

let rendered: Rendered;
afterEach(() => rendered.end());

const numbered = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}\n`).join("");
const item = (old_text: string | null, new_text: string): DiffItem => ({
  type: "diff",
  path: "a.py",
  old_text,
  new_text,
});

/** Renders a diff and waits until its table is loaded. */
async function show(diff: DiffItem, layout: "unified" | "split" = "unified", limit = 400): Promise<HTMLElement> {
  rendered = await render(<DiffView item={diff} layout={layout} limit={limit} />);
  await expect.poll(() => rendered.container.querySelector("table")).not.toBeNull();
  return rendered.container;
}

test("added and removed lines differ, and changed words are marked", async () => {
  const container = await show(item("let total = one;\n", "let total = two;\n"));
  expect(container.querySelector("tr.removed")?.textContent).toContain("let total = one;");
  expect(container.querySelector("tr.added")?.textContent).toContain("let total = two;");
  expect([...container.querySelectorAll(".diff-code-edit")].map((word) => word.textContent)).toEqual(["one", "two"]);
});

test("side by side, lines that replace each other are in one row", async () => {
  const container = await show(item("a\nb\nc\n", "a\nx\ny\nc\n"), "split");
  const rows = [...container.querySelectorAll("tbody tr")].map((row) =>
    [...row.querySelectorAll(".diff-code")].map((cell) => cell.textContent),
  );
  expect(rows).toEqual([
    ["a", "a"],
    ["b", "x"],
    ["", "y"],
    ["c", "c"],
  ]);
});

test("unchanged lines are folded, before and after, and can be unfolded", async () => {
  const before = numbered(30);
  const container = await show(item(before, before.replace("line 15\n", "fifteen\n")));
  const gaps = () => [...container.querySelectorAll(".diff-gap")].map((gap) => gap.textContent);
  expect(gaps()).toEqual(["12 unchanged lines", "11 unchanged lines"]);
  await rendered.press("11 unchanged lines");
  expect(gaps()).toEqual(["12 unchanged lines"]);
  expect(container.textContent).toContain("line 29");
  await rendered.press("12 unchanged lines");
  expect(gaps()).toEqual([]);
  expect(container.querySelectorAll("tr.diff-line")).toHaveLength(31);
});

test("a long diff is drawn in parts, as far as someone asks for it", async () => {
  const container = await show(item(null, numbered(1000)), "unified", 12);
  expect(container.querySelectorAll("tr.added")).toHaveLength(12);
  await rendered.press("Show 400 more of 988 lines");
  expect(container.querySelectorAll("tr.added")).toHaveLength(412);
});

test("texts are shown as text, whatever is in them", async () => {
  const container = await show(item(null, "<img src=x onerror=alert(1)>\n"));
  expect(container.querySelector("img")).toBeNull();
  expect(container.textContent).toContain("<img src=x onerror=alert(1)>");
});
