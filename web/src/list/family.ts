// The tree of sessions: sub-agents may have sessions of their own.

import type { SessionItem } from "../protocol";

/** The sessions that are no sub-agents of another loaded one. In a cycle each counts as top level. */
export function topLevelSessions(sessions: readonly SessionItem[]): readonly SessionItem[] {
  const byId = new Map(sessions.map((session) => [session.id, session]));
  return sessions.filter((session) => isTopLevel(session, byId));
}

function isTopLevel(session: SessionItem, byId: ReadonlyMap<string, SessionItem>): boolean {
  const seen = new Set([session.id]);
  let above = byId.get(session.parent ?? "");
  while (above !== undefined && !seen.has(above.id)) {
    seen.add(above.id);
    above = byId.get(above.parent ?? "");
  }
  return seen.size === 1 || above !== undefined;
}
