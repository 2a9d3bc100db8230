import { expect, test } from "vitest";

import { completeId, formatRoute, parseRoute } from "./route";
import type { Route } from "./route";

const ROUTES: readonly Route[] = [
  { view: "home" },
  { view: "needs" },
  { view: "new" },
  { view: "new", agent: "demo", cwd: "/a b/ü" },
  { view: "session", id: "x/y" },
  { view: "session", id: "abc", anchor: "m-message-12" },
  { view: "session", id: "abc", beside: true },
  { view: "settings", tab: "rules" },
  { view: "settings", tab: "diagnostics", session: "abc" },
];

test.each(ROUTES)("a formatted route is parsed as the same: $view", (route) => {
  expect(parseRoute(new URL(formatRoute(route), "http://here"))).toEqual(route);
});

test.each(["/nothing", "/s", "/s/", "/s/a/b", "/%", "//x"])("an address that is none leads home: %s", (path) => {
  expect(parseRoute(new URL(`http://here${path}`)).view).toBe("home");
});

test("the beginning of an id means the only session whose id begins so", () => {
  const ids = ["4efa24c01234", "4e0000001234", "abc"];
  expect(completeId("4efa24", ids)).toBe("4efa24c01234");
  expect(completeId("4e", ids)).toBeNull();
  expect(completeId("abc", ids)).toBeNull();
  expect(completeId("zzz", ids)).toBeNull();
});
