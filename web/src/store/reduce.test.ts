import { expect, test } from "vitest";

import type { SessionItem } from "../protocol";
import { appendOlderSessions } from "./list";
import { EMPTY_STATE, reduce } from "./reduce";

function session(id: string, updated: number, title = id): SessionItem {
  return {
    id,
    agent: "demo",
    title,
    prompt: "",
    cwd: "/w",
    created: 0,
    updated,
    runs: 0,
    frames: 0,
    run_status: null,
    connection: "none",
    status: "idle",
    pending: 0,
    imported: false,
    agent_session_id: "",
    parent: null,
    is_sub_agent: false,
    forked_from: null,
    worktree: null,
  };
}

const listed = reduce(EMPTY_STATE, {
  type: "snapshot",
  stream: "sessions",
  cursor: "1",
  sessions: [session("a", 1), session("b", 2)],
  more: true,
});
const ids = (known: typeof listed) => known.list?.sessions.map(({ id }) => id);

test("the session that changed last is the first in the list", () => {
  expect(ids(listed)).toEqual(["b", "a"]);
  const later = reduce(listed, {
    type: "update",
    stream: "sessions",
    cursor: "2",
    changed: [session("a", 3)],
    removed: [],
  });
  expect(ids(later)).toEqual(["a", "b"]);
});

test("a deleted session is removed, even if the same message has a change of it", () => {
  const later = reduce(listed, {
    type: "update",
    stream: "sessions",
    cursor: "2",
    changed: [session("a", 3)],
    removed: ["a"],
  });
  expect(ids(later)).toEqual(["b"]);
});

test("older sessions that were asked for do not bring back an old state of a newer one", () => {
  const list = appendOlderSessions(
    listed.list ?? { sessions: [], more: false },
    [session("c", 0), session("a", 1, "stale")],
    false,
  );
  expect(list.sessions.map(({ id, title }) => [id, title])).toEqual([
    ["b", "b"],
    ["a", "a"],
    ["c", "c"],
  ]);
});

test("a session that ended is known to be gone, and why", () => {
  const gone = reduce(EMPTY_STATE, {
    type: "ended",
    stream: "session",
    id: "s1",
    reason: "it was deleted",
    kind: null,
  });
  expect(gone.gone.get("s1")).toBe("it was deleted");
});

test("an update of a conversation that has no snapshot yet changes nothing", () => {
  const message = { type: "update", stream: "session", id: "s1", cursor: "1", changes: [] } as const;
  expect(reduce(EMPTY_STATE, message)).toBe(EMPTY_STATE);
});
