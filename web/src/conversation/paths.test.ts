import { expect, test } from "vitest";

import { displayPath, displayTitle } from "./paths";

test("a path within the workspace is shown without it", () => {
  expect(displayPath("/w/src/a.py", "/w")).toBe("src/a.py");
  expect(displayPath("/w", "/w")).toBe("/w");
  expect(displayPath("/web/a.py", "/w")).toBe("/web/a.py");
  expect(displayPath("/w/../etc/passwd", "/w")).toBe("/w/../etc/passwd");
});

test("a title that is only a path gets a verb", () => {
  expect(displayTitle("/w/src/a.py", "edit", "/w")).toBe("Write src/a.py");
  expect(displayTitle("w/src/a.py", "read", "/w")).toBe("Read src/a.py");
  expect(displayTitle("/w/src/a.py", "other", "/w")).toBe("src/a.py");
});

test("a path in the midst of a title is short too", () => {
  expect(displayTitle("Read /w/src/a.py", "read", "/w")).toBe("Read src/a.py");
  expect(displayTitle("Edit `/w/a.py` and `/w/b.py`", "edit", "/w")).toBe("Edit `a.py` and `b.py`");
  expect(displayTitle("Read /web/a.py", "read", "/w")).toBe("Read /web/a.py");
});

test("any other title is as the agent has it", () => {
  expect(displayTitle("/etc/passwd", "edit", "/w")).toBe("/etc/passwd");
  expect(displayTitle("rm -rf /w/src", "execute", "/w")).toBe("rm -rf /w/src");
  expect(displayTitle("Edit files", "edit", "/w")).toBe("Edit files");
});
