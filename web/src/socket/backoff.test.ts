import { expect, test } from "vitest";

import { waitBefore } from "./backoff";

test("the first tries come within a second, later ones not more often than every few seconds", () => {
  expect(waitBefore(0, 0.99)).toBeLessThanOrEqual(250);
  expect(waitBefore(10, 0)).toBeGreaterThanOrEqual(7_000);
  expect(waitBefore(1000, 0.99)).toBeLessThanOrEqual(15_000);
});

test("two pages that lost the server together do not come back together", () => {
  expect(waitBefore(5, 0.1)).not.toBe(waitBefore(5, 0.9));
});
