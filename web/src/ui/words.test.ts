import { expect, test } from "vitest";

import { titleOf } from "./words";

test("a session is called by its title, else by the first line that was said", () => {
  expect(titleOf({ title: "Named", prompt: "Do it", runs: 1 })).toBe("Named");
  expect(titleOf({ title: null, prompt: "Do it\nnow", runs: 1 })).toBe("Do it");
  expect(titleOf({ title: null, prompt: "", runs: 0 })).toBe("New session");
  expect(titleOf({ title: " ", prompt: "", runs: 1 })).toBe("Untitled");
});

test("codes for terminals are not shown in a title", () => {
  expect(titleOf({ title: "\u001b]0;other\u0007T\u001b[31mitle\u009b\u0000", prompt: "", runs: 1 })).toBe("Title");
});
