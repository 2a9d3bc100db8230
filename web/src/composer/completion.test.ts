import { expect, test } from "vitest";

import { complete, matchingCommands, triggerAt } from "./completion";

test("a file is named after an at sign that begins a word", () => {
  expect(triggerAt("see @src/pa", 11)).toEqual({ kind: "file", query: "src/pa", from: 4, to: 11 });
  expect(triggerAt("@", 1)).toEqual({ kind: "file", query: "", from: 0, to: 1 });
  expect(triggerAt("ada@example", 11)).toBeNull();
  expect(triggerAt("@a b", 4)).toBeNull();
});

test("a command is a slash that begins the text", () => {
  expect(triggerAt("/comp", 5)).toEqual({ kind: "command", query: "comp", from: 0, to: 5 });
  expect(triggerAt("a /comp", 7)).toBeNull();
  expect(triggerAt("/review this", 12)).toBeNull();
});

test("the chosen suggestion replaces the typed text, and the caret goes behind it", () => {
  const text = "see @pa and go";
  const trigger = triggerAt(text, 7);
  expect(trigger && complete(text, trigger, "src/parse.py")).toEqual({ text: "see @src/parse.py and go", caret: 18 });
  const command = triggerAt("/re", 3);
  expect(command && complete("/re", command, "review")).toEqual({ text: "/review ", caret: 8 });
});

test("commands that begin with the typed text come first", () => {
  const commands = ["preview", "review", "compact"].map((name) => ({ name, description: "", hint: null }));
  expect(matchingCommands(commands, "RE").map((command) => command.name)).toEqual(["review", "preview"]);
});
