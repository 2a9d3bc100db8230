import { expect, test } from "vitest";

import { describeMatches, splitByMarks } from "./snippet";

test("the number of matches is the number that is shown, unless there are more", () => {
  expect(describeMatches(0, false)).toBe("No matches in messages");
  expect(describeMatches(1, false)).toBe("1 match in messages");
  expect(describeMatches(30, false)).toBe("30 matches in messages");
  expect(describeMatches(30, true)).toBe("The best 30 matches in messages");
});

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
