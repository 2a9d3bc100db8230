import { expect, test } from "vitest";

import { LIVE, RowBuilder, NO_USAGE } from "../dev/rowBuilder";
import { contextFraction, contextSizes, statusText } from "./status";

test("the agent's activity is described in words", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  builder.message("user", "go");
  expect(statusText(LIVE, builder.rows, run.time + 1, "/w")).toBe("waiting for the model");
  expect(statusText(LIVE, builder.rows, run.time + 10, "/w")).toBe("waiting for the model, 9 s");
  const call = builder.call("execute", "pytest", { status: "in_progress", ended_time: null });
  expect(statusText(LIVE, builder.rows, call.time + 14, "/w")).toBe("running pytest, 14 s");
  builder.put({ ...call, status: "completed", ended_time: call.time + 15 });
  builder.message("thought", "hm", { ended: false });
  expect(statusText(LIVE, builder.rows, call.time + 2, "/w")).toBe("thinking");
  builder.message("assistant", "so", { ended: false });
  expect(statusText(LIVE, builder.rows, call.time + 20, "/w")).toBe("writing");
});

test("a pending call is the agent's activity until its next message", () => {
  const builder = new RowBuilder();
  builder.run();
  builder.message("user", "go");
  const call = builder.call("execute", "make", { status: "pending", ended_time: null });
  expect(statusText(LIVE, builder.rows, call.time + 9, "/w")).toBe("running make, 9 s");
  builder.message("assistant", "so", { ended: false });
  expect(statusText(LIVE, builder.rows, call.time + 9, "/w")).toBe("writing");
});

test("a state other than running is shown with its reason", () => {
  const { rows } = new RowBuilder();
  expect(statusText({ ...LIVE, status: "waiting" }, rows, 0, "/w")).toBe("needs you");
  expect(statusText({ ...LIVE, status: "idle" }, rows, 0, "/w")).toBe("idle");
  expect(statusText({ ...LIVE, status: "idle", reason: "1 queued" }, rows, 0, "/w")).toBe("idle: 1 queued");
});

test("after a run that failed, the words are those of the header", () => {
  const builder = new RowBuilder();
  builder.put({ ...builder.run(), status: "error" });
  expect(statusText({ ...LIVE, status: "idle" }, builder.rows, 0, "/w")).toBe("failed");
});

test("an agent in a terminal is described like one of our own", () => {
  expect(statusText({ ...LIVE, connection: "watched" }, new RowBuilder().rows, 0, "/w")).toBe(
    "elsewhere: waiting for the model",
  );
});

test("an error is shown elsewhere, and here by a word", () => {
  const { rows } = new RowBuilder();
  const reason = "exited with 1";
  const problem = { kind: "", category: "", message: reason, guidance: "", stderr: "", actions: [], install: null };
  expect(statusText({ ...LIVE, connection: "disconnected", reason, failure: problem }, rows, 0, "/w")).toBe(
    "disconnected",
  );
  expect(statusText({ ...LIVE, connection: "error", reason, failure: problem }, rows, 0, "/w")).toBe("not started");
  expect(statusText({ ...LIVE, status: "idle", reason, failure: problem }, rows, 0, "/w")).toBe("idle");
});

test("a figure that cannot be a part of the context is none", () => {
  expect(contextFraction({ ...NO_USAGE, context_used: 43, context_size: 100 })).toBe(0.43);
  expect(contextFraction({ ...NO_USAGE, context_used: 521, context_size: 100 })).toBeNull();
  const usage = { ...NO_USAGE, context_used: 43, context_size: 100 };
  expect(contextSizes(usage)).toBe("43 of 100 tokens");
  expect(contextSizes({ ...usage, is_context_size_guessed: true })).toBe("43 of about 100 tokens");
  expect(contextFraction(NO_USAGE)).toBeNull();
});
