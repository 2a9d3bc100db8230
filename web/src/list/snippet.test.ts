import { expect, test } from "vitest";

import { splitByMarks } from "./snippet";

test("the match is marked within the words around it", () => {
  expect(splitByMarks("find this here", [[5, 9]])).toEqual([
    { text: "find ", isMatch: false },
    { text: "this", isMatch: true },
    { text: " here", isMatch: false },
  ]);
});

test("marks that make no sense lose no text", () => {
  const text = "abc";
  for (const marks of [
    [[2, 1]],
    [[0, 9]],
    [
      [1, 2],
      [0, 1],
    ],
  ] as [number, number][][]) {
    expect(
      splitByMarks(text, marks)
        .map((piece) => piece.text)
        .join(""),
    ).toBe(text);
  }
});
