import { expect, test } from "vitest";

import { filterCommands } from "./commands";

const item = (label: string, detail = "") => ({ id: label, label, detail, act: () => undefined });

test("every word must match, and commands that begin with them come first", () => {
  const items = [item("Fix a new bug"), item("New session"), item("Settings", "new")];
  expect(filterCommands(items, "new").map(({ label }) => label)).toEqual(["New session", "Fix a new bug", "Settings"]);
  expect(filterCommands(items, "new bug").map(({ label }) => label)).toEqual(["Fix a new bug"]);
});
