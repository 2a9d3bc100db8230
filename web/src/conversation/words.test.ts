import { expect, test } from "vitest";

import { Made, NO_USAGE } from "../dev/made";
import { duration, endWords, figure, usageWords } from "./words";

test("times are as long as they need to be", () => {
  expect([0.12, 6, 9.96, 14.4, 200, 7500].map(duration)).toEqual([
    "0.1 s",
    "6 s",
    "10.0 s",
    "14 s",
    "3 min 20 s",
    "2 h 5 min",
  ]);
});

test("figures are short", () => {
  expect([950, 12_400, 120_000, 1_230_000].map(figure)).toEqual(["950", "12.4 k", "120 k", "1.2 M"]);
});

test("what an agent did not report is said to be so, and is never zero", () => {
  expect(usageWords(null)).toEqual({ tokens: "tokens not reported", cost: "cost not reported" });
  expect(
    usageWords({ ...NO_USAGE, input_tokens: 1000, output_tokens: 200, cost: { amount: 0, currency: "credits" } }),
  ).toEqual({ tokens: "1.2 k tokens", cost: "0.00 credits" });
});

test("how a run ended is told where it is worth a word", () => {
  const run = new Made().run();
  expect(endWords({ ...run, status: "success", stop_reason: "end_turn" }, false)).toBeNull();
  expect(endWords({ ...run, status: "success" }, true)?.text).toContain("The agent ended without an answer.");
  expect(endWords({ ...run, status: "error", reason: "silent" }, false)?.text).toContain(
    "The agent ended without an answer.",
  );
  expect(endWords({ ...run, status: "success", stop_reason: "max_tokens" }, false)?.bad).toBe(true);
  expect(endWords({ ...run, status: "error", reason: "quota" }, false)).toEqual({
    text: "The run failed: quota",
    bad: true,
  });
  expect(endWords({ ...run, status: "cancelled" }, false)).toEqual({ text: "Stopped", bad: false });
});
