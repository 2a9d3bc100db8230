// Which settings have a place of their own in the header, and which are folded away. Pure.

import type { Setting } from "../protocol";

export interface SettingsLayout {
  readonly shown: readonly Setting[];
  readonly folded: readonly Setting[];
}

/** Categories that people change most come first. */
const CATEGORY_ORDER = ["model", "mode", "thought_level"];

/** Those that can be changed at all; `room` for that many, and one more rather than a list with one thing in it. */
export function arrangeSettings(settings: readonly Setting[], room: number): SettingsLayout {
  const rank = ({ category }: Setting) =>
    (CATEGORY_ORDER.indexOf(category ?? "") + CATEGORY_ORDER.length + 1) % (CATEGORY_ORDER.length + 1);
  const sorted = settings
    .filter(({ choices, current }) => choices.length > 0 || typeof current === "boolean")
    .toSorted((a, b) => rank(a) - rank(b));
  const fit = sorted.length <= room + 1 ? sorted.length : room;
  return { shown: sorted.slice(0, fit), folded: sorted.slice(fit) };
}

/** The current value, by the name of its choice. */
export function settingValueLabel({ choices, current }: Setting): string {
  const chosen = choices.find((choice) => choice.value === String(current));
  if (chosen !== undefined) return chosen.name;
  return typeof current === "boolean" ? (current ? "on" : "off") : (current ?? "not set");
}
