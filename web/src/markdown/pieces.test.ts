import { expect, test } from "vitest";

import { splitIntoPieces, type Pieces } from "./pieces";

const TEXT = Array.from({ length: 60 }, (_, at) =>
  [
    `Paragraph ${at} with some words. `.repeat(8),
    "",
    `- item ${at}`,
    "- another",
    "",
    "```py",
    "x = 1",
    "",
    "y = 2",
    "```",
    "",
    "$$",
    "a",
    "",
    "b",
    "$$",
    "",
  ].join("\n"),
).join("\n");

test("the pieces of a text are the text", () => {
  expect(splitIntoPieces(TEXT).texts.join("")).toBe(TEXT);
  expect(splitIntoPieces(TEXT).texts.length).toBeGreaterThan(5);
  expect(splitIntoPieces("").texts).toEqual([""]);
});

test("a piece that is settled never changes while the text grows", () => {
  let pieces: Pieces | undefined;
  let settled: string[] = [];
  for (let end = 1; end <= TEXT.length; end += 37) {
    pieces = splitIntoPieces(TEXT.slice(0, end), pieces);
    const now = pieces.texts.slice(0, -1);
    expect(now.slice(0, settled.length)).toEqual(settled);
    settled = [...now];
  }
  expect(splitIntoPieces(TEXT, pieces).texts.join("")).toBe(TEXT);
});

test("a fence is never cut in two", () => {
  const code = `\`\`\`py\n${"x = 1\n\n".repeat(1000)}\`\`\`\n`;
  const { texts } = splitIntoPieces(`${TEXT}\n${code}\nafter\n`);
  expect(texts.filter((text) => text.includes("x = 1\n\nx = 1")).length).toBe(1);
});

test("a paragraph without an end is cut between words", () => {
  const words = "word ".repeat(20_000);
  const { texts } = splitIntoPieces(words);
  expect(texts.join("")).toBe(words);
  expect(texts.slice(0, -1).every((text) => text.length < 6000 && text.endsWith(" "))).toBe(true);
  const unbroken = splitIntoPieces("x".repeat(50_000)).texts;
  expect(unbroken.join("").length).toBe(50_000);
  expect(unbroken.length).toBeGreaterThan(5);
});

test("a text that changed is split again", () => {
  const before = splitIntoPieces(TEXT);
  const other = TEXT.replace("Paragraph 0", "Another beginning");
  expect(splitIntoPieces(other, before).texts.join("")).toBe(other);
});

test("line ends of other systems do not lose a letter", () => {
  expect(splitIntoPieces(TEXT.replaceAll("\n", "\r\n")).texts.join("")).toBe(TEXT);
});

test("a long text is read in parts, and a block that is longer than any part is cut between words", () => {
  const long = TEXT.repeat(8);
  expect(splitIntoPieces(long).texts.join("")).toBe(long);
  expect(Math.max(...splitIntoPieces(long).texts.map((text) => text.length))).toBeLessThan(6000);
  const list = "- item of a list\n".repeat(20_000);
  const { texts } = splitIntoPieces(list);
  expect(texts.join("")).toBe(list);
  expect(texts.length).toBeGreaterThan(1);
});

test("a text that is full of marks is split in bounded time", () => {
  for (const mark of [">", "> a\nb\n", "$$a\n\n", "[a]: <\n", "a\n=\n", "|a\n", "1. a\n2) b\n"]) {
    const text = mark.repeat(40_000 / mark.length);
    expect(splitIntoPieces(text).texts.join("")).toBe(text);
  }
});
