// The list of sessions, as pure as the conversations.

import type { SessionItem, SessionsSnapshot, SessionsUpdate } from "../protocol";

export interface List {
  /** The latest first. */
  readonly sessions: readonly SessionItem[];
  /** There are older ones, which can be asked for. */
  readonly more: boolean;
}

export function listSnapshot(message: SessionsSnapshot): List {
  return { sessions: sorted(message.sessions), more: message.more };
}

export function listUpdate(known: List, message: SessionsUpdate): List {
  return { ...known, sessions: merged(known.sessions, message.changed, message.removed) };
}

/** Older ones, which were asked for. */
export function listOlder(known: List, older: readonly SessionItem[], more: boolean): List {
  const ids = new Set(known.sessions.map((session) => session.id));
  return {
    sessions: merged(
      known.sessions,
      older.filter((session) => !ids.has(session.id)),
      [],
    ),
    more,
  };
}

function merged(known: readonly SessionItem[], changed: readonly SessionItem[], removed: readonly string[]) {
  const gone = new Set([...removed, ...changed.map((session) => session.id)]);
  return sorted([
    ...changed.filter((session) => !removed.includes(session.id)),
    ...known.filter((session) => !gone.has(session.id)),
  ]);
}

function sorted(sessions: readonly SessionItem[]): readonly SessionItem[] {
  return sessions.toSorted((a, b) => b.updated - a.updated || (a.id < b.id ? 1 : -1));
}
