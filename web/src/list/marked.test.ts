import { expect, test } from "vitest";

import { marked } from "./marked";

test("what matched is marked within the words around it", () => {
  expect(marked("find this here", [[5, 9]])).toEqual([
    { text: "find ", hit: false },
    { text: "this", hit: true },
    { text: " here", hit: false },
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
      marked(text, marks)
        .map((piece) => piece.text)
        .join(""),
    ).toBe(text);
  }
});
