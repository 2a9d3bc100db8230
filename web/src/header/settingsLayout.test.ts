import { expect, test } from "vitest";

import type { Setting } from "../protocol";
import { arrangeSettings, settingValueLabel } from "./settingsLayout";

const setting = (id: string, category: string | null = null): Setting => ({
  id,
  name: id,
  category,
  current: "a",
  choices: [{ value: "a", name: "A", description: null }],
  source: "option",
});
const MANY = [
  setting("mode", "mode"),
  setting("team"),
  setting("model", "model"),
  setting("effort", "thought_level"),
  setting("fast", "model_config"),
];
const names = (settings: readonly Setting[]) => settings.map(({ id }) => id);

test("the settings that are changed most come first, and those without room are folded", () => {
  const { shown, folded } = arrangeSettings(MANY, 3);
  expect(names(shown)).toEqual(["model", "mode", "effort"]);
  expect(names(folded)).toEqual(["team", "fast"]);
});

test("one more is shown rather than folded alone", () => {
  expect(arrangeSettings(MANY.slice(0, 4), 3).folded).toEqual([]);
  expect(arrangeSettings(MANY.slice(0, 1), 0).folded).toEqual([]);
  expect(names(arrangeSettings(MANY, 0).shown)).toEqual([]);
});

test("settings that cannot be changed are left out", () => {
  expect(arrangeSettings([{ ...setting("x"), choices: [] }], 3).shown).toEqual([]);
  expect(names(arrangeSettings([{ ...setting("x"), choices: [], current: false }], 3).shown)).toEqual(["x"]);
});

test("a value is shown by its name", () => {
  expect(settingValueLabel(setting("x"))).toBe("A");
  expect(settingValueLabel({ ...setting("x"), current: "z" })).toBe("z");
  expect(settingValueLabel({ ...setting("x"), current: null })).toBe("not set");
  expect(settingValueLabel({ ...setting("x"), current: true })).toBe("on");
});
