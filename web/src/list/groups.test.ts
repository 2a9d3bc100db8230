import { expect, test } from "vitest";

import type { SessionItem } from "../protocol";
import { dayTitle, groupSessions } from "./groups";

const NOON = new Date(2026, 4, 20, 12).getTime() / 1000;
const DAY = 86_400;

function session(id: string, given: Partial<SessionItem> = {}): SessionItem {
  return {
    id,
    agent: "demo",
    title: id,
    prompt: "",
    cwd: "/w",
    created: NOON,
    updated: NOON,
    runs: 1,
    frames: 1,
    run_status: "success",
    connection: "none",
    status: "idle",
    pending: 0,
    imported: false,
    agent_session_id: "",
    parent: null,
    is_sub_agent: false,
    forked_from: null,
    worktree: null,
    ...given,
  };
}

test("sessions that need the user come first, then running ones, then the rest by day", () => {
  const sessions = [
    session("done"),
    session("runs", { status: "running", connection: "connected" }),
    session("asks", { status: "waiting", pending: 1, updated: NOON - 9 * DAY }),
    session("old", { updated: NOON - DAY }),
  ];
  const titles = groupSessions(sessions, NOON).map((group) => [group.title, group.sessions.map(({ id }) => id)]);
  expect(titles).toEqual([
    ["Needs you", ["asks"]],
    ["Running", ["runs"]],
    ["Today", ["done"]],
    ["Yesterday", ["old"]],
  ]);
});

test("a day begins at midnight where the reader is, not a day ago", () => {
  const midnight = new Date(2026, 4, 20).getTime() / 1000;
  expect(dayTitle(midnight, NOON)).toBe("Today");
  expect(dayTitle(midnight - 1, NOON)).toBe("Yesterday");
  expect(dayTitle(midnight - 5 * DAY, NOON)).toMatch(/day$/);
});
