import { expect, test } from "vitest";

import { shownPath, shownTitle } from "./paths";

test("a path within the workspace is shown without it", () => {
  expect(shownPath("/w/src/a.py", "/w")).toBe("src/a.py");
  expect(shownPath("/w", "/w")).toBe("/w");
  expect(shownPath("/web/a.py", "/w")).toBe("/web/a.py");
  expect(shownPath("/w/../etc/passwd", "/w")).toBe("/w/../etc/passwd");
});

test("a title that is the bare path of a file says what is done to it", () => {
  expect(shownTitle("/w/src/a.py", "edit", "/w")).toBe("Write src/a.py");
  expect(shownTitle("w/src/a.py", "read", "/w")).toBe("Read src/a.py");
  expect(shownTitle("/w/src/a.py", "other", "/w")).toBe("src/a.py");
});

test("a path in the midst of a title is short too", () => {
  expect(shownTitle("Read /w/src/a.py", "read", "/w")).toBe("Read src/a.py");
  expect(shownTitle("Edit `/w/a.py` and `/w/b.py`", "edit", "/w")).toBe("Edit `a.py` and `b.py`");
  expect(shownTitle("Read /web/a.py", "read", "/w")).toBe("Read /web/a.py");
});

test("any other title is as the agent has it", () => {
  expect(shownTitle("/etc/passwd", "edit", "/w")).toBe("/etc/passwd");
  expect(shownTitle("rm -rf /w/src", "execute", "/w")).toBe("rm -rf /w/src");
  expect(shownTitle("Edit files", "edit", "/w")).toBe("Edit files");
});
