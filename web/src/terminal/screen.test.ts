import { expect, test } from "vitest";

import { hasEscapes, stripEscapes } from "./escapes";
import { Screen } from "./screen";

async function lines(text: string, columns?: number) {
  const screen = new Screen(columns);
  await screen.write(text);
  return screen.lines();
}

const texts = async (text: string, columns?: number) =>
  (await lines(text, columns)).map((line) => line.map((span) => span.text).join(""));

test("colours begin and end where the output says", async () => {
  const [line] = await lines("\u001b[1;31mFAILED\u001b[0m test");
  expect(line).toMatchObject([
    { text: "FAILED", style: { front: 1, bold: true } },
    { text: " test", style: null },
  ]);
});

test("titles, links and the clipboard are left out", async () => {
  const hostile =
    "\u001b]0;title\u0007\u001b]8;;https://evil.example\u0007click\u001b]8;;\u0007 \u001b]52;c;ZXZpbA==\u0007after";
  expect(await texts(hostile)).toEqual(["click after"]);
  expect(stripEscapes(hostile)).toBe("click after");
});

test("a progress bar is its last state", async () => {
  expect(await texts("10 %\r50 %\r100 %\ndone\n")).toEqual(["100 %", "done"]);
});

test("a line that was broken at the edge is whole again", async () => {
  expect(await texts("x".repeat(100), 40)).toEqual(["x".repeat(100)]);
});

test("lines of programs that write to a pipe do not walk to the right", async () => {
  expect(await texts("one\ntwo\n")).toEqual(["one", "two"]);
});

test("wide letters take their room once", async () => {
  expect(await texts("漢字 ok")).toEqual(["漢字 ok"]);
});

test("a text without escapes needs no terminal", () => {
  expect(hasEscapes("plain\ntext\n")).toBe(false);
  expect(hasEscapes("\u001b[31mred")).toBe(true);
});
