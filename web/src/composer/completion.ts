// The completion at the caret: a file after `@`, or a command after a `/` at the start of the text. Pure.

import type { Command } from "../protocol";

export interface Trigger {
  readonly kind: "file" | "command";
  readonly query: string;
  /** The positions of the sign and of the caret. */
  readonly from: number;
  readonly to: number;
}

export function triggerAt(text: string, caret: number): Trigger | null {
  const before = text.slice(0, caret);
  const command = /^\/(\S*)$/.exec(before);
  if (command) return { kind: "command", query: command[1] ?? "", from: 0, to: caret };
  const file = /(?:^|\s)@(\S*)$/.exec(before);
  if (!file) return null;
  const query = file[1] ?? "";
  return { kind: "file", query, from: caret - query.length - 1, to: caret };
}

/** The text with the chosen value inserted, and the new position of the caret. */
export function complete(text: string, trigger: Trigger, chosen: string): { text: string; caret: number } {
  const sign = trigger.kind === "file" ? "@" : "/";
  const rest = text.slice(trigger.to);
  const put = sign + chosen + (rest.startsWith(" ") ? "" : " ");
  const caret = trigger.from + sign.length + chosen.length + 1;
  return { text: text.slice(0, trigger.from) + put + rest, caret };
}

/** Commands that match the query: those that begin with it come first. */
export function matchingCommands(commands: readonly Command[], query: string): readonly Command[] {
  const words = query.toLowerCase();
  const begins = commands.filter((command) => command.name.toLowerCase().startsWith(words));
  const contains = commands.filter(
    (command) => !begins.includes(command) && command.name.toLowerCase().includes(words),
  );
  return [...begins, ...contains];
}
