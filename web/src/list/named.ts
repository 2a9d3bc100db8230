// Sessions by what they are called, where they work, and with whom.

import type { SessionItem } from "../protocol";
import { titleOf } from "../ui/words";

export function named(sessions: readonly SessionItem[], text: string): readonly SessionItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return sessions.filter((session) => {
    const all = `${titleOf(session)} ${session.cwd} ${session.agent}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
