// Earlier prompts, for the arrow keys. Pure.

import type { Message } from "../protocol";

/** The newest first, each once. */
export function sentPrompts(messages: readonly Message[]): readonly string[] {
  const texts = messages
    .filter((message) => message.kind === "user" && message.text !== "")
    .map((message) => message.text);
  return [...new Set(texts.reverse())];
}

/** The index after moving back (1) or forward (-1); -1 is the current draft. */
export function stepHistory(at: number, by: 1 | -1, count: number): number {
  return Math.max(-1, Math.min(count - 1, at + by));
}
