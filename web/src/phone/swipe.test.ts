import { expect, test } from "vitest";

import { swiped } from "./swipe";

const LEFT = { x: -120, y: 10 };
const RIGHT = { x: 120, y: 10 };

test("a swipe leads from the sessions to the conversation, to its changes, and back", () => {
  expect(swiped({ view: "home" }, "a", LEFT)).toEqual({ view: "session", id: "a" });
  expect(swiped({ view: "session", id: "a" }, "a", LEFT)).toEqual({ view: "session", id: "a", beside: true });
  expect(swiped({ view: "session", id: "a", beside: true }, "a", RIGHT)).toEqual({ view: "session", id: "a" });
  expect(swiped({ view: "session", id: "a" }, "a", RIGHT)).toEqual({ view: "home" });
});

test("there is nothing beyond the first and the last pane, nor where no session was opened", () => {
  expect(swiped({ view: "home" }, "a", RIGHT)).toBeNull();
  expect(swiped({ view: "session", id: "a", beside: true }, "a", LEFT)).toBeNull();
  expect(swiped({ view: "home" }, null, LEFT)).toBeNull();
  expect(swiped({ view: "settings", tab: "agents" }, "a", LEFT)).toBeNull();
});

test("a finger that scrolls is no swipe", () => {
  expect(swiped({ view: "home" }, "a", { x: -80, y: 60 })).toBeNull();
  expect(swiped({ view: "home" }, "a", { x: -30, y: 0 })).toBeNull();
});
