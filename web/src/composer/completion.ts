// What is being completed at the caret: a file after `@`, a command after a `/` that begins the text. Pure.

import type { Command } from "../protocol";

export interface Trigger {
  readonly kind: "file" | "command";
  readonly query: string;
  /** Where the sign stands, and where the caret is. */
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

/** The text with what was chosen in place of what was typed, and where the caret goes. */
export function complete(text: string, trigger: Trigger, chosen: string): { text: string; caret: number } {
  const sign = trigger.kind === "file" ? "@" : "/";
  const rest = text.slice(trigger.to);
  const put = sign + chosen + (rest.startsWith(" ") ? "" : " ");
  const caret = trigger.from + sign.length + chosen.length + 1;
  return { text: text.slice(0, trigger.from) + put + rest, caret };
}

/** Commands that fit what was typed: those that begin with it first. */
export function matchingCommands(commands: readonly Command[], query: string): readonly Command[] {
  const words = query.toLowerCase();
  const begins = commands.filter((command) => command.name.toLowerCase().startsWith(words));
  const contains = commands.filter(
    (command) => !begins.includes(command) && command.name.toLowerCase().includes(words),
  );
  return [...begins, ...contains];
}
