// Times, paths and names as people say them.

import type { SessionItem } from "../protocol";

/** What a session is called: its title, else the first words that were said in it. */
export function titleOf(session: Pick<SessionItem, "title" | "prompt">): string {
  const words = (session.title ?? "").trim() || session.prompt.trim().split("\n", 1)[0] || "";
  return words === "" ? "New session" : words;
}

/** The last part of a path, which tells workspaces apart. */
export function folderOf(path: string): string {
  return path.replace(/\/+$/, "").split("/").at(-1) || "/";
}

/** The path with the home folder as `~`. */
export function shortPath(path: string, home: string): string {
  if (home !== "" && (path === home || path.startsWith(`${home}/`))) return `~${path.slice(home.length)}`;
  return path;
}

const MINUTE = 60;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** How long ago, in short: "now", "5 min", "3 h", "2 d". Both in seconds. */
export function ago(time: number, now: number): string {
  const seconds = Math.max(0, now - time);
  if (seconds < MINUTE) return "now";
  if (seconds < HOUR) return `${Math.floor(seconds / MINUTE)} min`;
  if (seconds < DAY) return `${Math.floor(seconds / HOUR)} h`;
  return `${Math.floor(seconds / DAY)} d`;
}

export function dateTime(time: number): string {
  return new Date(time * 1000).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });
}

export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}
