// Prompts that were sent before, for the arrow keys. Pure.

import type { Message } from "../protocol";

/** The newest first, each once. */
export function sentPrompts(messages: readonly Message[]): readonly string[] {
  const texts = messages
    .filter((message) => message.kind === "user" && message.text !== "")
    .map((message) => message.text);
  return [...new Set(texts.reverse())];
}

/** The place after going one further back (1) or forth (-1): -1 is what is being written now. */
export function stepHistory(at: number, by: 1 | -1, count: number): number {
  return Math.max(-1, Math.min(count - 1, at + by));
}
