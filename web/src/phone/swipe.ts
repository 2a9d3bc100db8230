// A swipe leads to the pane beside: the sessions, the conversation, its changes.

import { useEffect } from "react";

import { navigate } from "../route";
import type { Route } from "../route";

const MIN_SWIPE_PX = 70; // px; less is a finger that slipped

/** The route to the right or left of this one; null if there is none. `by` is the movement of the finger in pixels. */
export function swipeTarget(route: Route, last: string | null, by: { x: number; y: number }): Route | null {
  if (Math.abs(by.x) < MIN_SWIPE_PX || Math.abs(by.x) < 2 * Math.abs(by.y)) return null;
  const panes: Route[] = [{ view: "home" }];
  if (last !== null) panes.push({ view: "session", id: last }, { view: "session", id: last, beside: true });
  const at = route.view === "home" ? 0 : route.view !== "session" ? -1 : route.beside ? 2 : 1;
  return at < 0 ? null : (panes[at + (by.x < 0 ? 1 : -1)] ?? null);
}

export function useSwipe(route: Route, last: string | null): void {
  useEffect(() => {
    let start: Touch | null = null;
    const began = (event: TouchEvent) => {
      const finger = event.touches[0];
      start = event.touches.length === 1 && finger !== undefined && !scrollsSideways(event.target) ? finger : null;
    };
    const ended = (event: TouchEvent) => {
      const finger = event.changedTouches[0];
      if (start === null || finger === undefined) return;
      const to = swipeTarget(route, last, { x: finger.clientX - start.clientX, y: finger.clientY - start.clientY });
      if (to !== null) navigate(to);
    };
    addEventListener("touchstart", began, { passive: true });
    addEventListener("touchend", ended, { passive: true });
    return () => {
      removeEventListener("touchstart", began);
      removeEventListener("touchend", ended);
    };
  }, [route, last]);
}

/** True for code, tables and rows of buttons, which scroll sideways themselves. */
function scrollsSideways(target: EventTarget | null): boolean {
  for (let one = target instanceof Element ? target : null; one !== null; one = one.parentElement) {
    if (one.scrollWidth > one.clientWidth && /auto|scroll/.test(getComputedStyle(one).overflowX)) return true;
  }
  return false;
}
