import { expect, test } from "vitest";

import { closeOpenMarks } from "./closeOpenMarks";

test("marks that are still open are closed", () => {
  expect(closeOpenMarks("some **bold")).toBe("some **bold**");
  expect(closeOpenMarks("some `code")).toBe("some `code`");
  expect(closeOpenMarks("~~gone")).toBe("~~gone~~");
  expect(closeOpenMarks("some **")).toBe("some ");
});

test("a link without its end is its label", () => {
  expect(closeOpenMarks("see [the docs](https://exam")).toBe("see the docs");
  expect(closeOpenMarks("see [the do")).toBe("see the do");
});

test("a complete text stays as it is", () => {
  for (const text of ["a **b** c", "a `b` c", "[a](b)", "a [b] c", "", "**a**\n\nb"])
    expect(closeOpenMarks(text)).toBe(text);
});

test("within a fence nothing is a mark", () => {
  expect(closeOpenMarks("```py\nx = a ** b\ny = `")).toBe("```py\nx = a ** b\ny = `");
});
