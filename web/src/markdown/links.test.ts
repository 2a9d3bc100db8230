import { expect, test } from "vitest";

import { imageData, picture, target } from "./links";

test.each([
  "javascript:alert(1)",
  "JaVaScRiPt:alert(1)",
  " java\nscript:alert(1)",
  "java\u0000script:alert(1)",
  "\u0001javascript:alert(1)",
  "data:text/html,<script>alert(1)</script>",
  "vbscript:msgbox(1)",
  "blob:https://x/1",
  "about:blank",
  "//evil.example/x",
  "",
])("%j opens nothing", (address) => {
  expect(target(address)).toEqual({ kind: "none" });
});

test("web addresses open elsewhere", () => {
  expect(target("https://example.com/a?b#c")).toEqual({ kind: "web", href: "https://example.com/a?b#c" });
  expect(target("mailto:a@example.com")).toEqual({ kind: "web", href: "mailto:a@example.com" });
});

test("paths open files, at their line", () => {
  expect(target("src/parse.py")).toEqual({ kind: "file", path: "src/parse.py", line: null });
  expect(target("src/parse.py:12")).toEqual({ kind: "file", path: "src/parse.py", line: 12 });
  expect(target("parse.py:12:4")).toEqual({ kind: "file", path: "parse.py", line: 12 });
  expect(target("src/a%20b.py#L7-L9")).toEqual({ kind: "file", path: "src/a b.py", line: 7 });
  expect(target("file:///home/ada/x.md")).toEqual({ kind: "file", path: "/home/ada/x.md", line: null });
});

test("only pictures that came with the text are shown", () => {
  expect(picture("https://example.com/x.png")).toBeNull();
  expect(picture("data:text/html;base64,AAAA")).toBeNull();
  expect(imageData("image/png", "AAAA")).toBe("data:image/png;base64,AAAA");
  expect(imageData("text/html", "AAAA")).toBeNull();
});
