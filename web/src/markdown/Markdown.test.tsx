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
