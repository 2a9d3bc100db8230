import { beforeEach, expect, test, vi } from "vitest";

import { FollowScroll, distanceToEnd, isAtEnd } from "./followScroll";

const VIEW = 500;
let follow: FollowScroll;

/** A view of 500 px whose bottom is `distance` px above the end of the content. */
const at = (distance: number, scrollHeight = 10_000) => ({
  scrollHeight,
  clientHeight: VIEW,
  scrollTop: scrollHeight - VIEW - distance,
});

beforeEach(() => {
  follow = new FollowScroll();
  follow.record(at(0));
});

test("the end is followed from the start", () => {
  expect(follow.isFollowing).toBe(true);
  expect(follow.current()).toEqual({ leftAt: null, isFar: false });
  expect(isAtEnd(at(1))).toBe(true);
  expect(distanceToEnd(at(7))).toBe(7);
});

test("a reader who scrolls up leaves the end, which is reported once", () => {
  expect(follow.scroll(at(300), "last")).toBe(true);
  expect(follow.isFollowing).toBe(false);
  expect(follow.current()).toEqual({ leftAt: "last", isFar: true });
});

test("content that grows below the view does not count as scrolling", () => {
  // The browser keeps the position; the height grew.
  expect(follow.scroll({ ...at(0), scrollHeight: 12_000 }, "last")).toBe(false);
  expect(follow.isFollowing).toBe(true);
});

test("content that becomes shorter moves the view without the reader", () => {
  expect(follow.scroll(at(60, 8_000), "last")).toBe(false);
  expect(follow.isFollowing).toBe(true);
});

test("a reader who comes back near the end follows it again", () => {
  follow.scroll(at(300), "last");
  follow.scroll(at(60), "last");
  expect(follow.isFollowing).toBe(false);
  follow.scroll(at(40), "last");
  expect(follow.isFollowing).toBe(true);
});

test("a reader who scrolls up to near the end does not follow it", () => {
  follow.scroll(at(300), "last");
  follow.scroll(at(100), "last");
  expect(follow.current()).toEqual({ leftAt: "last", isFar: false });
  follow.scroll(at(110), "last");
  expect(follow.isFollowing).toBe(false);
});

test("items after the last one when the reader left count as new", () => {
  follow.scroll(at(300), "c");
  follow.scroll(at(600), "e");
  expect(follow.current().leftAt).toBe("c");
  expect(follow.countUnseen(["a", "b", "c", "d", "e"])).toBe(2);
  expect(follow.countUnseen(["d", "e"])).toBe(0);
});

test("nothing is counted while the end is followed, or nearly in view", () => {
  expect(follow.countUnseen(["a"])).toBeNull();
  follow.scroll(at(100), "a");
  expect(follow.countUnseen(["a", "b"])).toBeNull();
});

test("a restored position is not at the end, whatever direction it was scrolled in", () => {
  follow.record({ scrollTop: 0, scrollHeight: 10_000, clientHeight: VIEW });
  follow.restore();
  expect(follow.isFollowing).toBe(false);
  expect(follow.scroll(at(2_000), "last")).toBe(true);
  expect(follow.current().leftAt).toBe("last");
});

test("a position that was restored at the end is followed", () => {
  follow.restore();
  follow.scroll(at(0), "last");
  expect(follow.isFollowing).toBe(true);
});

test("while the position is looked for, scroll events say nothing", () => {
  follow.scroll(at(300), "last");
  follow.search();
  follow.scroll(at(0), "last");
  expect(follow.isFollowing).toBe(false);
  follow.settle();
  follow.scroll(at(0), "last");
  expect(follow.isFollowing).toBe(true);
});

test("listeners hear of changes, and of nothing else", () => {
  const listener = vi.fn();
  const stop = follow.subscribe(listener);
  follow.measure(at(10));
  follow.follow();
  expect(listener).not.toHaveBeenCalled();
  follow.leave("last");
  follow.measure(at(500));
  expect(listener).toHaveBeenCalledTimes(2);
  stop();
  follow.follow();
  expect(listener).toHaveBeenCalledTimes(2);
});
