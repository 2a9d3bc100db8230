// Formats times, paths and names.

import type { SessionItem } from "../protocol";

/** The title of a session, or the first line of its first prompt. */
export function sessionTitle(session: Pick<SessionItem, "title" | "prompt" | "runs">): string {
  const words =
    stripControls(session.title ?? "").trim() || stripControls(session.prompt).trim().split("\n", 1)[0] || "";
  return words || (session.runs > 0 ? "Untitled" : "New session");
}

/** Terminal escape sequences and invisible characters. */
const UNSEEN =
  /\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?|\u001b\[[0-?]*[ -/]*[@-~]?|[\u0000-\u0009\u000b-\u001f\u007f-\u009f]/g;

function stripControls(text: string): string {
  return text.replace(UNSEEN, "");
}

/** The last part of a path, which distinguishes workspaces. */
export function baseName(path: string): string {
  return stripControls(path).replace(/\/+$/, "").split("/").at(-1) || "/";
}

/** The path with the home folder as `~`. */
export function shortPath(path: string, home: string): string {
  if (home !== "" && (path === home || path.startsWith(`${home}/`))) return `~${path.slice(home.length)}`;
  return path;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** The age in short: "now", "5 min", "3 h", "2 d"; empty for 0, an unknown time. Both times are in seconds. */
export function formatAge(time: number, now: number): string {
  if (time === 0) return "";
  const seconds = Math.max(0, now - time);
  if (seconds < MINUTE) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

/** The time in seconds as a date; 0 is an unknown time. */
export function formatDateTime(time: number): string {
  if (time === 0) return "unknown time";
  return new Date(time * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
