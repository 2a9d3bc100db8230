// Sessions by what they are called, where they work, and with whom.

import type { SessionItem } from "../protocol";
import { sessionTitle } from "../ui/format";

export function filterSessions(sessions: readonly SessionItem[], text: string): readonly SessionItem[] {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return sessions.filter((session) => {
    const all = `${sessionTitle(session)} ${session.cwd} ${session.agent}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
}
