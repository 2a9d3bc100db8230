import { expect, test } from "vitest";

import { escapeInvisible } from "./escapeInvisible";

test("characters that would hide or reorder a command are shown", () => {
  expect(escapeInvisible("rm \u202egnp.exe\u200b")).toBe("rm ⟨U+202E⟩gnp.exe⟨U+200B⟩");
  expect(escapeInvisible("echo \u001b[8mhidden\r")).toBe("echo ⟨U+001B⟩[8mhidden⟨U+000D⟩");
});

test("ordinary text stays as it is", () => {
  expect(escapeInvisible("naïve 漢字 👍\n\tnext")).toBe("naïve 漢字 👍\n\tnext");
});
