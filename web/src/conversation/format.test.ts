import { expect, test } from "vitest";

import { DECIDED, RowBuilder, NO_USAGE } from "../dev/rowBuilder";
import type { Run } from "../protocol";
import { formatDuration, describeRunEnd, formatCount, formatUsage, secondsWaited } from "./format";

test("times are as long as they need to be", () => {
  expect([0.12, 6, 9.96, 14.4, 200, 7500].map(formatDuration)).toEqual([
    "0.1 s",
    "6 s",
    "10.0 s",
    "14 s",
    "3 min 20 s",
    "2 h 5 min",
  ]);
});

test("figures are short", () => {
  expect([950, 12_400, 120_000, 1_230_000].map(formatCount)).toEqual(["950", "12.4 k", "120 k", "1.2 M"]);
});

test("figures that an agent did not report are named as such, and are never zero", () => {
  expect(formatUsage(null)).toEqual({ tokens: "tokens not reported", cost: "cost not reported" });
  expect(formatUsage({ ...NO_USAGE, total_tokens: 0, input_tokens: 0 }).tokens).toBe("tokens not reported");
  expect(
    formatUsage({ ...NO_USAGE, input_tokens: 1000, output_tokens: 200, cost: { amount: 0, currency: "credits" } }),
  ).toEqual({ tokens: "1.2 k tokens", cost: "0.00 credits" });
});

test("the end of a run is described if it needs words", () => {
  const builder = new RowBuilder();
  const run = builder.run();
  const end = (given: Partial<Run>, silent = false) =>
    describeRunEnd({ ...run, ...given }, { isSilent: silent, rows: [] }, (title) => title);
  expect(end({ status: "success", stop_reason: "end_turn" })).toBeNull();
  expect(end({ status: "success" }, true)?.text).toContain("The agent ended the run without an answer.");
  expect(end({ status: "error", reason: "silent" })?.text).toContain("The agent ended the run without an answer.");
  expect(end({ status: "success", stop_reason: "max_tokens" })?.bad).toBe(true);
  expect(end({ status: "error", reason: "quota" })).toEqual({ text: "The run failed: quota", bad: true });
  expect(end({ status: "cancelled" })).toEqual({ text: "Stopped", bad: false });
  expect(end({ status: "interrupted", reason: "so it was" })).toEqual({ text: "Interrupted: so it was", bad: false });
});

test("a run that ended because something was refused says so", () => {
  const builder = new RowBuilder();
  const run = { ...builder.run(), status: "cancelled" as const };
  const decided = { ...DECIDED, decision: "deny", decided_by: "person" };
  const refused = builder.permission("rm -rf build", { outcome: "selected", option_id: "no", ...decided });
  const end = (given: Partial<Run>) =>
    describeRunEnd({ ...run, ...given }, { isSilent: false, rows: [refused] }, (name) => name);
  expect(end({})?.text).toBe("You denied “rm -rf build”, and the agent stopped.");
  expect(end({ cancel_requested: true })?.text).toBe("Stopped");
  refused.decided_by = "rule";
  expect(end({})?.text).toBe("“rm -rf build” was denied, and the agent stopped.");
});

test("an error that the agent has already shown is not repeated", () => {
  const builder = new RowBuilder();
  const run = { ...builder.run(), status: "error" as const, reason: "Internal error: API Error: 400 no such model" };
  const answer = builder.message("assistant", "API Error: 400 no such model");
  expect(describeRunEnd(run, { isSilent: false, rows: [answer] }, (name) => name)?.text).toBe("The run failed.");
  const noted = builder.notice("API Error: 400 no such model");
  expect(describeRunEnd(run, { isSilent: false, rows: [noted] }, (name) => name)?.text).toBe("The run failed.");
  expect(describeRunEnd(run, { isSilent: false, rows: [] }, (name) => name)?.text).toContain("400 no such model");
});

test("waits for the user's answers are added up, and those at the same time once", () => {
  const builder = new RowBuilder();
  const answered = (begin: number, end: number, by = "person") =>
    builder.permission("May I?", { time: begin, resolved_time: end, ...DECIDED, decided_by: by });
  const rows = [answered(10, 20), answered(15, 30), answered(40, 50, "rule"), builder.permission("pending")];
  expect(secondsWaited(rows)).toBe(20);
});
