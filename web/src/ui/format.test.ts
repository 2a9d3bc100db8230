import { expect, test } from "vitest";

import { formatAge, formatDateTime, sessionTitle } from "./format";

test("a time that a transcript does not have is unknown", () => {
  expect(formatAge(0, 1_800_000_000)).toBe("");
  expect(formatDateTime(0)).toBe("unknown time");
});

test("a session is called by its title, else by the first line that was said", () => {
  expect(sessionTitle({ title: "Named", prompt: "Do it", runs: 1 })).toBe("Named");
  expect(sessionTitle({ title: null, prompt: "Do it\nnow", runs: 1 })).toBe("Do it");
  expect(sessionTitle({ title: null, prompt: "", runs: 0 })).toBe("New session");
  expect(sessionTitle({ title: " ", prompt: "", runs: 1 })).toBe("Untitled");
});

test("codes for terminals are not shown in a title", () => {
  expect(sessionTitle({ title: "\u001b]0;other\u0007T\u001b[31mitle\u009b\u0000", prompt: "", runs: 1 })).toBe("Title");
});
