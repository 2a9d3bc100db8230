import { expect, test } from "vitest";

import { requestOf } from "./request";

const of = (raw_input: unknown) => requestOf({ content: [], raw_input });

test("a command is read from the request, and everything else is still shown", () => {
  expect(of({ command: "rm -rf build", cwd: "/w", timeout: 5 })).toMatchObject({
    command: "rm -rf build",
    folder: "/w",
    rest: { timeout: 5 },
  });
});

test("a command in parts is one line, quoted where a shell would need it", () => {
  expect(of({ command: "git", args: ["commit", "-m", "it's done"] }).command).toBe("git commit -m 'it'\\''s done'");
  expect(of({ command: ["ls", "a b"] }).command).toBe("ls 'a b'");
});

test("the line that a shell is given is shown, not the shell", () => {
  expect(of({ command: ["bash", "-lc", "make && make install"] }).command).toBe("make && make install");
  expect(of({ command: ["bash", "-lc", "a", "b"] }).command).toBe("bash -lc a b");
});

test("an unknown request is shown as it was sent", () => {
  expect(of({ url: "https://example.com" })).toMatchObject({ command: null, rest: { url: "https://example.com" } });
  expect(of("text").rest).toBe("text");
  expect(of(null).rest).toBeNull();
});
