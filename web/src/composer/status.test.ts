import { expect, test } from "vitest";

import { LIVE, Made, NO_USAGE } from "../dev/made";
import { contextUsed, statusWords } from "./status";

test("what the agent does is told in words", () => {
  const made = new Made();
  const run = made.run();
  made.message("user", "go");
  expect(statusWords(LIVE, made.rows, run.time + 1)).toBe("waiting for the model");
  expect(statusWords(LIVE, made.rows, run.time + 10)).toBe("waiting for the model, 9 s");
  const call = made.call("execute", "pytest", { status: "in_progress", ended_time: null });
  expect(statusWords(LIVE, made.rows, call.time + 14)).toBe("running pytest, 14 s");
  made.put({ ...call, status: "completed", ended_time: call.time + 15 });
  made.message("thought", "hm", { ended: false });
  expect(statusWords(LIVE, made.rows, call.time + 2)).toBe("thinking");
  made.message("assistant", "so", { ended: false });
  expect(statusWords(LIVE, made.rows, call.time + 20)).toBe("writing");
});

test("a state other than running is told with why", () => {
  const { rows } = new Made();
  expect(statusWords({ ...LIVE, status: "waiting" }, rows, 0)).toBe("waits for you");
  expect(statusWords({ ...LIVE, status: "idle" }, rows, 0)).toBe("ready");
  expect(statusWords({ ...LIVE, status: "idle", reason: "1 queued" }, rows, 0)).toBe("ready: 1 queued");
  expect(statusWords({ ...LIVE, connection: "disconnected", reason: "exited with 1" }, rows, 0)).toBe(
    "disconnected: exited with 1",
  );
});

test("a figure that cannot be a part of the context is none", () => {
  expect(contextUsed({ ...NO_USAGE, context_used: 43, context_size: 100 })).toBe(0.43);
  expect(contextUsed({ ...NO_USAGE, context_used: 521, context_size: 100 })).toBeNull();
  expect(contextUsed(NO_USAGE)).toBeNull();
});
