// Groups of the session list: what needs the user, what is running, then the rest by day.

import type { SessionItem } from "../protocol";
import { stateOf } from "../ui/state";

export const NEEDS_YOU = "Needs you";

export interface Group {
  readonly title: string;
  readonly sessions: readonly SessionItem[];
}

/** `now` in seconds. The sessions come with the latest first, and stay so within a group. */
export function groupSessions(sessions: readonly SessionItem[], now: number): readonly Group[] {
  const groups = new Map<string, SessionItem[]>([
    [NEEDS_YOU, []],
    ["Running", []],
  ]);
  for (const session of sessions) {
    const title = groupTitle(session, now);
    const group = groups.get(title);
    if (group === undefined) groups.set(title, [session]);
    else group.push(session);
  }
  return [...groups]
    .filter(([, members]) => members.length > 0)
    .map(([title, members]) => ({ title, sessions: members }));
}

function groupTitle(session: SessionItem, now: number): string {
  const state = stateOf(session);
  if (state === "waiting") return NEEDS_YOU;
  if (state === "running" || state === "starting") return "Running";
  return dayTitle(session.updated, now);
}

export function dayTitle(time: number, now: number): string {
  const day = midnight(time);
  const days = Math.round((midnight(now) - day) / 86_400_000);
  if (days <= 0) return "Today";
  if (days === 1) return "Yesterday";
  const date = new Date(day);
  if (days < 7) return date.toLocaleDateString(undefined, { weekday: "long" });
  const sameYear = date.getFullYear() === new Date(now * 1000).getFullYear();
  return date.toLocaleDateString(undefined, {
    day: "numeric",
    month: "long",
    ...(sameYear ? {} : { year: "numeric" }),
  });
}

function midnight(time: number): number {
  return new Date(time * 1000).setHours(0, 0, 0, 0);
}
