import { expect, test } from "vitest";

import { swipeTarget } from "./swipe";

const LEFT = { x: -120, y: 10 };
const RIGHT = { x: 120, y: 10 };

test("a swipe leads from the sessions to the conversation, to its changes, and back", () => {
  expect(swipeTarget({ view: "home" }, "a", LEFT)).toEqual({ view: "session", id: "a" });
  expect(swipeTarget({ view: "session", id: "a" }, "a", LEFT)).toEqual({ view: "session", id: "a", beside: true });
  expect(swipeTarget({ view: "session", id: "a", beside: true }, "a", RIGHT)).toEqual({ view: "session", id: "a" });
  expect(swipeTarget({ view: "session", id: "a" }, "a", RIGHT)).toEqual({ view: "home" });
});

test("there is nothing beyond the first and the last pane, nor where no session was opened", () => {
  expect(swipeTarget({ view: "home" }, "a", RIGHT)).toBeNull();
  expect(swipeTarget({ view: "session", id: "a", beside: true }, "a", LEFT)).toBeNull();
  expect(swipeTarget({ view: "home" }, null, LEFT)).toBeNull();
  expect(swipeTarget({ view: "settings", tab: "agents" }, "a", LEFT)).toBeNull();
});

test("a finger that scrolls is no swipe", () => {
  expect(swipeTarget({ view: "home" }, "a", { x: -80, y: 60 })).toBeNull();
  expect(swipeTarget({ view: "home" }, "a", { x: -30, y: 0 })).toBeNull();
});
