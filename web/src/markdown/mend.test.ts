import { expect, test } from "vitest";

import { mend } from "./mend";

test("marks that are still open are closed", () => {
  expect(mend("some **bold")).toBe("some **bold**");
  expect(mend("some `code")).toBe("some `code`");
  expect(mend("~~gone")).toBe("~~gone~~");
  expect(mend("some **")).toBe("some ");
});

test("a link without its end is its label", () => {
  expect(mend("see [the docs](https://exam")).toBe("see the docs");
  expect(mend("see [the do")).toBe("see the do");
});

test("what is complete stays as it is", () => {
  for (const text of ["a **b** c", "a `b` c", "[a](b)", "a [b] c", "", "**a**\n\nb"]) expect(mend(text)).toBe(text);
});

test("within a fence nothing is a mark", () => {
  expect(mend("```py\nx = a ** b\ny = `")).toBe("```py\nx = a ** b\ny = `");
});
