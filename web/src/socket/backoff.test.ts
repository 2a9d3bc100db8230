import { expect, test } from "vitest";

import { retryDelayMs } from "./backoff";

test("the first tries come within a second, later ones not more often than every few seconds", () => {
  expect(retryDelayMs(0, 0.99)).toBeLessThanOrEqual(250);
  expect(retryDelayMs(10, 0)).toBeGreaterThanOrEqual(7_000);
  expect(retryDelayMs(1000, 0.99)).toBeLessThanOrEqual(15_000);
});

test("two pages that lost the server together do not come back together", () => {
  expect(retryDelayMs(5, 0.1)).not.toBe(retryDelayMs(5, 0.9));
});
