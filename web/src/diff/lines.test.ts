import { expect, test } from "vitest";

import { compare, pairs, type DiffLine } from "./lines";

const render = (line: DiffLine) =>
  line.kind === "gap"
    ? `… ${line.lines.length}`
    : line.kind === "same"
      ? ` ${line.text}`
      : (line.kind === "added" ? "+" : "-") + line.marks.map((mark) => mark.text).join("");

test("lines that changed are render, with what stands around them", () => {
  const before = Array.from({ length: 30 }, (_, at) => `line ${at}`).join("\n");
  const diff = compare(before, before.replace("line 15", "line fifteen"));
  expect(diff).toMatchObject({ added: 1, removed: 1 });
  expect(diff.lines.map(render)).toEqual([
    "… 12",
    " line 12",
    " line 13",
    " line 14",
    "-line 15",
    "+line fifteen",
    " line 16",
    " line 17",
    " line 18",
    "… 11",
  ]);
});

test("the words that changed are marked", () => {
  const [removed, added] = compare("let total = count + one;", "let total = count + two;").lines;
  expect(removed).toMatchObject({ kind: "removed", old: 1 });
  expect(added?.kind === "added" && added.marks.filter((mark) => mark.changed).map((mark) => mark.text)).toEqual([
    "two",
  ]);
});

test("a new file is all added, and an emptied one all removed", () => {
  expect(compare("", "a\nb\n")).toMatchObject({ added: 2, removed: 0 });
  expect(compare("a\nb\n", "")).toMatchObject({ added: 0, removed: 2 });
  expect(compare("a", "a\n").lines.map(render)).toEqual([" a"]);
});

test("side by side, lines that take each other's place stand beside each other", () => {
  const rows = pairs(compare("a\nb\nc\n", "a\nx\ny\nc\n").lines);
  const sides = rows.map((row) =>
    row.kind === "gap" ? "gap" : [row.left && render(row.left), row.right && render(row.right)],
  );
  expect(sides).toEqual([
    [" a", " a"],
    ["-b", "+x"],
    [null, "+y"],
    [" c", " c"],
  ]);
});

test("texts that have nothing in common are compared in bounded time", () => {
  const one = Array.from({ length: 6000 }, (_, at) => `a${at}`).join("\n");
  const other = Array.from({ length: 6000 }, (_, at) => `b${at}`).join("\n");
  expect(compare(one, other)).toMatchObject({ added: 6000, removed: 6000 });
});
