// The list of sessions. Pure.

import type { SessionItem, SessionsSnapshot, SessionsUpdate } from "../protocol";

export interface SessionListState {
  /** The latest first. */
  readonly sessions: readonly SessionItem[];
  /** There are older sessions, which can be requested. */
  readonly more: boolean;
}

export function applyListSnapshot(message: SessionsSnapshot): SessionListState {
  return { sessions: sorted(message.sessions), more: message.more };
}

export function applyListUpdate(list: SessionListState, message: SessionsUpdate): SessionListState {
  return { ...list, sessions: merged(list.sessions, message.changed, message.removed) };
}

/** Adds older sessions that were requested. */
export function appendOlderSessions(
  list: SessionListState,
  older: readonly SessionItem[],
  more: boolean,
): SessionListState {
  const ids = new Set(list.sessions.map((session) => session.id));
  return {
    sessions: merged(
      list.sessions,
      older.filter((session) => !ids.has(session.id)),
      [],
    ),
    more,
  };
}

function merged(list: readonly SessionItem[], changed: readonly SessionItem[], removed: readonly string[]) {
  const gone = new Set([...removed, ...changed.map((session) => session.id)]);
  return sorted([
    ...changed.filter((session) => !removed.includes(session.id)),
    ...list.filter((session) => !gone.has(session.id)),
  ]);
}

function sorted(sessions: readonly SessionItem[]): readonly SessionItem[] {
  return sessions.toSorted((a, b) => b.updated - a.updated || (a.id < b.id ? 1 : -1));
}
