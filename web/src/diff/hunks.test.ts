import type { ChangeData, HunkData } from "react-diff-view";
import { expect, test } from "vitest";

import { changedWords, compare, truncateHunks } from "./hunks";

const SIGNS = { normal: " ", delete: "-", insert: "+" };
const render = (change: ChangeData) => SIGNS[change.type] + change.content;
const lines = (hunks: readonly HunkData[]) => hunks.map((hunk) => hunk.changes.map(render));
const numbered = (count: number) => Array.from({ length: count }, (_, at) => `line ${at}`).join("\n");

test("lines that changed are shown with three lines around them", () => {
  const diff = compare(numbered(30), numbered(30).replace("line 15", "line fifteen"));
  expect(diff).toMatchObject({ added: 1, removed: 1 });
  expect(lines(diff.hunks)).toEqual([
    [" line 12", " line 13", " line 14", "-line 15", "+line fifteen", " line 16", " line 17", " line 18"],
  ]);
  expect(diff.hunks[0]).toMatchObject({ oldStart: 13, newStart: 13, oldLines: 7, newLines: 7 });
});

test("changes that are far apart are hunks of their own", () => {
  const diff = compare(numbered(40), numbered(40).replace("line 5\n", "five\n").replace("line 35\n", "thirty-five\n"));
  expect(diff.hunks).toHaveLength(2);
});

test("the words that changed are marked, with their positions", () => {
  const { hunks } = compare("let total = count + one;", "let total = count + two;");
  expect(changedWords(hunks)).toEqual({
    old: [{ type: "edit", lineNumber: 1, start: 20, length: 3 }],
    new: [{ type: "edit", lineNumber: 1, start: 20, length: 3 }],
  });
});

test("lines with little in common are not marked, nor lines that replace nothing", () => {
  expect(changedWords(compare("a b c", "completely different words here").hunks)).toEqual({ old: [], new: [] });
  expect(changedWords(compare("one\n", "one\ntwo\n").hunks)).toEqual({ old: [], new: [] });
  expect(changedWords(compare("one two three\n", "one two four\nfive\n").hunks)).toEqual({ old: [], new: [] });
});

test("a new file is all added, an emptied one all removed, and a line end alone is no change", () => {
  expect(compare("", "a\nb\n")).toMatchObject({ added: 2, removed: 0 });
  expect(compare("a\nb\n", "")).toMatchObject({ added: 0, removed: 2 });
  expect(compare("a", "a\n")).toEqual({ added: 0, removed: 0, hunks: [] });
});

test("texts that have nothing in common are compared in bounded time", () => {
  const one = Array.from({ length: 6000 }, (_, at) => `a${at}`).join("\n");
  const other = Array.from({ length: 6000 }, (_, at) => `b${at}`).join("\n");
  expect(compare(one, other)).toMatchObject({ added: 6000, removed: 6000 });
});

test("only so many lines are shown", () => {
  const { hunks } = compare("", numbered(50));
  expect(truncateHunks(hunks, 12)[0]?.changes).toHaveLength(12);
  expect(truncateHunks(hunks, 50)[0]).toBe(hunks[0]);
});
