// Sessions and their sub-agents, where these are sessions too.

import type { SessionItem } from "../protocol";

/** Those that are nobody's sub-agent, as far as is known here. Of two that claim to be each other's, each is its own. */
export function heads(sessions: readonly SessionItem[]): readonly SessionItem[] {
  const known = new Map(sessions.map((session) => [session.id, session]));
  return sessions.filter((session) => isHead(session, known));
}

function isHead(session: SessionItem, known: ReadonlyMap<string, SessionItem>): boolean {
  const seen = new Set([session.id]);
  let above = known.get(session.parent ?? "");
  while (above !== undefined && !seen.has(above.id)) {
    seen.add(above.id);
    above = known.get(above.parent ?? "");
  }
  return seen.size === 1 || above !== undefined;
}
