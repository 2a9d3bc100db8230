import { expect, test } from "vitest";

import { stateOf } from "./state";

test("a session whose last run was cut is over, and not cut off from its agent", () => {
  const cut = { status: "idle", run_status: "interrupted" } as const;
  expect(stateOf({ ...cut, connection: "none" })).toBe("interrupted");
  expect(stateOf({ ...cut, connection: "disconnected" })).toBe("disconnected");
  expect(stateOf({ ...cut, connection: "connected" })).toBe("idle");
});

test("a pending request or a current run counts more than the end of the last run", () => {
  const failed = { connection: "connected", run_status: "error" } as const;
  expect(stateOf({ ...failed, status: "running", waiting: 1 })).toBe("waiting");
  expect(stateOf({ ...failed, status: "running" })).toBe("running");
  expect(stateOf({ ...failed, status: "idle" })).toBe("error");
});
