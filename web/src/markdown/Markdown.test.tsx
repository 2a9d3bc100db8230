// @vitest-environment happy-dom
import { afterEach, expect, test, vi } from "vitest";

import { render, type Rendered } from "../dev/render";
import { Markdown, OpenFileContext } from "./Markdown";

let drawn: Rendered;
afterEach(() => drawn.end());

const shown = async (text: string, streaming = false) => {
  drawn = await render(<Markdown text={text} streaming={streaming} />);
  return drawn.container;
};

test("HTML in a text is shown as text", async () => {
  const container = await shown(
    '<script>alert(1)</script>\n\nHello <img src=x onerror="alert(1)"> <b>there</b>\n\n<iframe src="https://evil.example"></iframe>',
  );
  expect(container.querySelector("script, img, iframe, b")).toBeNull();
  expect(container.textContent).toContain("<script>alert(1)</script>");
  expect(container.textContent).toContain('<img src=x onerror="alert(1)">');
});

test("a link that would run something is no link", async () => {
  const container = await shown(
    "[a](javascript:alert(1)) [b](&#106;avascript:alert(1)) <javascript:alert(1)> [c](https://example.com)",
  );
  const links = [...container.querySelectorAll("a")];
  expect(links.map((link) => link.href)).toEqual(["https://example.com/"]);
  expect(links[0]?.rel).toBe("noopener noreferrer");
  expect(links[0]?.target).toBe("_blank");
});

test("a picture from elsewhere is a link, one in the text is a picture", async () => {
  const container = await shown("![far](https://example.com/pixel.png) ![near](data:image/png;base64,AAAA)");
  expect([...container.querySelectorAll("img")].map((image) => image.src)).toEqual(["data:image/png;base64,AAAA"]);
  expect(container.querySelector("a")?.textContent).toBe("image: far");
});

test("a link to a path opens the file at its line", async () => {
  const open = vi.fn();
  drawn = await render(
    <OpenFileContext value={open}>
      <Markdown text="see [the parser](src/parse.py:12)" />
    </OpenFileContext>,
  );
  await drawn.press("the parser");
  expect(open).toHaveBeenCalledWith("src/parse.py", 12);
});

test("tables, lists, tasks and code are rendered as such", async () => {
  const container = await shown(
    "| a | b |\n|---|--:|\n| 1 | 2 |\n\n3. x\n4. y\n\n- [x] done\n\n```py title=x\na &amp; b\n```",
  );
  expect(container.querySelectorAll("td").length).toBe(2);
  expect(container.querySelector("ol")?.getAttribute("start")).toBe("3");
  expect(container.querySelector<HTMLInputElement>("input")?.checked).toBe(true);
  expect(container.querySelector("pre")?.textContent).toBe("a &amp; b");
  expect(container.querySelector("figcaption span")?.textContent).toBe("py");
});

test("prices are no math, and formulas are", async () => {
  const container = await shown("It costs $5 and $6, but $x^2$ is math.");
  expect([...container.querySelectorAll(".math")].map((one) => one.textContent)).toEqual(["x^2"]);
});

test("a code block keeps its place when it closes", async () => {
  const open = (await shown("```py\nx = 1", true)).innerHTML;
  await drawn.end();
  const closed = (await shown("```py\nx = 1\n```")).innerHTML;
  expect(open).toBe(closed);
});

test("characters written by name are themselves", async () => {
  expect((await shown("a &amp; b &lt;c&gt; &#8364; &rarr; &eacute; &nosuch; &#0;")).textContent).toBe(
    "a & b <c> € → é &nosuch; \uFFFD",
  );
});

/** Texts that would take an unbounded parser seconds, or more levels than its stack has. */
const BOMBS: Readonly<Record<string, string>> = {
  "a formula that never closes": `$$${" ".repeat(3000)}`,
  "formulas that never close": "$$a\n\n".repeat(1000),
  "brackets that never close": "\\[a\n\n".repeat(1000),
  "quotes within quotes": ">".repeat(5000),
  "quotes that go on in the next line": `${"> ".repeat(40)}a\nb\n${"> ".repeat(20)}c\nd\n`.repeat(20),
  "lists within lists": Array.from({ length: 500 }, (_, level) => `${"  ".repeat(level)}- x`).join("\n"),
  "emphasis within emphasis": `${"*".repeat(3000)}a${"*".repeat(3000)}`,
  "links within links": `${"[".repeat(3000)}a${"](b)".repeat(3000)}`,
  "a long line of open marks": "*a **b _c ~~d ".repeat(4000),
  "a table of millions of cells": `${"|".repeat(3000)}\n${"|-".repeat(3000)}|\n${"|\n".repeat(3000)}`,
};

function depthOf(element: Element): number {
  return 1 + Math.max(0, ...[...element.children].map(depthOf));
}

test.each(Object.entries(BOMBS))("%s are shown in bounded time and depth", async (_, text) => {
  const container = await shown(text);
  expect((container.textContent ?? "").length).toBeGreaterThan(0);
  expect(container.querySelectorAll("*").length).toBeLessThan(25_000);
  expect(container.querySelectorAll("blockquote, li, em, strong").length).toBeLessThan(10_000);
  expect(depthOf(container)).toBeLessThan(60);
});

test("what is nested too deeply is shown as it is written", async () => {
  const container = await shown(`${"> ".repeat(30)}inside`);
  expect(container.querySelectorAll("blockquote").length).toBe(16);
  expect(container.querySelector(".as-written")?.textContent).toContain("> inside");
});

test("a formula may have several lines, and ends with its line", async () => {
  const container = await shown("$$\na\n\nb\n$$\n\n\\[ c \\]\n\n$$ d $$ e\n\n\\(f\\) g");
  const formulas = [...container.querySelectorAll(".math")].map((one) => one.textContent);
  expect(formulas).toEqual(["a\n\nb", "c", "f"]);
});

test("a formula with too many marks that look like its end is shown as it is written", async () => {
  const withMarks = (count: number) => `$$ a${" $$ b".repeat(count)}\n$$`;
  expect((await shown(withMarks(19))).querySelectorAll(".math").length).toBe(1);
  expect((await shown(withMarks(20))).querySelectorAll(".math").length).toBe(0);
});
