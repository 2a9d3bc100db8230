// The list of a conversation: draws what is in view, follows its end until the reader goes up, keeps their place.

import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, type RefObject } from "react";

import { estimateHeight } from "./estimateHeight";
import type { Item } from "./items";
import { savePosition, readPosition, type Position } from "./position";
import { onSent } from "./promptSent";
import { useEvent } from "../ui/useEvent";

/** A reader who comes down to within this of the end is at the end. */
const NEAR_END = 48;
/** Nearer than this to the end there is no way to it, which would lie over the last lines. */
const BESIDE_END = 120;
/** Nearer than this to the top, older rows are asked for. */
const NEAR_TOP = 600;

type List = Virtualizer<HTMLDivElement, Element>;

export interface Tail {
  readonly place: RefObject<HTMLDivElement | null>;
  readonly list: List;
  /** Items that came while the reader was elsewhere; null while the end is followed, or all but in view. */
  readonly unseen: number | null;
  /** The reader is elsewhere than at the end. */
  readonly away: boolean;
  readonly toEnd: () => void;
  /** Leaves the end, for something is opened or closed, or gone to; `key` is what should be in view then. */
  readonly hold: (key?: string) => void;
}

interface Given {
  sessionId: string;
  items: readonly Item[];
  more: boolean;
  /** Changes when all rows were told anew. */
  snapshotVersion: number;
  onHistory: () => Promise<unknown>;
  /** The reader has just gone up. */
  onLeave: () => void;
}

export function useTail({ sessionId, items, more, snapshotVersion, onHistory, onLeave }: Given): Tail {
  const place = useRef<HTMLDivElement>(null);
  /** The last item when the reader left the end; null while it is followed. */
  const [left, setLeft] = useState<string | null>(null);
  const [far, setFar] = useState(false);
  const lastTop = useRef(0);
  const lastHeight = useRef(0);
  const asking = useRef(false);
  /** Where the reader was last, while they are elsewhere than at the end. */
  const at = useRef<Position | null>(null);
  const list = useVirtualizer<HTMLDivElement, Element>({
    count: items.length,
    getScrollElement: () => place.current,
    getItemKey: useCallback((at: number) => items[at]?.key ?? at, [items]),
    estimateSize: (at) => {
      const item = items[at];
      return item ? estimateHeight(item) : 28;
    },
    overscan: 6,
    paddingStart: more ? 48 : 16, // the button for older rows stands there
    paddingEnd: 24,
    // Keeps what is read in its place when older rows come in before it. The end is followed here, not there.
    anchorTo: left === null ? "start" : "end",
    scrollEndThreshold: -1,
    useFlushSync: false,
  });

  const last = items.at(-1)?.key ?? null;
  const restored = useOpening(sessionId, items, list);
  const lost = useLost({ at, items, more, snapshotVersion, onHistory }, list);
  useLayoutEffect(() => {
    const element = place.current;
    if (!element) return;
    const following = left === null && !restored.current;
    // Were both to move it, the list would go by where it was some changes ago, and that looks as if the reader went up.
    list.shouldAdjustScrollPositionOnItemSizeChange = following ? () => false : undefined;
    if (following) {
      element.scrollTop = element.scrollHeight;
      note(element);
    } else setFar(distance(element) > BESIDE_END);
  });
  const note = (element: HTMLElement) => {
    lastTop.current = element.scrollTop;
    lastHeight.current = element.scrollHeight;
    // The list hears of it with the next frame, and would move what changes until then to where it was before.
    list.scrollOffset = element.scrollTop;
  };
  const askOlder: () => void = useEvent(() => {
    const element = place.current;
    // Who is at the end did not come up, however near the top that is.
    if (!element || !more || element.scrollTop >= NEAR_TOP || distance(element) < 2 || asking.current) return;
    const { count } = list.options;
    asking.current = true;
    void onHistory().finally(() => {
      asking.current = false;
      // What came may have left the reader at its top, where nothing is scrolled any more.
      afterFrames(3, () => list.options.count > count && askOlder());
    });
  });
  const scrolled = useEvent(() => {
    const element = place.current;
    if (!element) return;
    const { scrollTop } = element;
    // What becomes shorter moves too, and nobody moved it.
    const wentUp = scrollTop < lastTop.current - 1 && element.scrollHeight >= lastHeight.current;
    const wentDown = scrollTop > lastTop.current;
    note(element);
    if (lost.current) return; // nobody went anywhere
    setFar(distance(element) > BESIDE_END);
    // What grows below the view moves nothing; what shrinks above it leaves the reader at the end.
    if (distance(element) < 2 || (wentDown && distance(element) < NEAR_END)) setLeft(null);
    else if (wentUp || restored.current) {
      onLeave(); // at once: before the next rows come, and the oldest go
      setLeft((before) => before ?? last);
    }
    restored.current = false;
    const top = distance(element) < 2 ? undefined : list.getVirtualItemForOffset(scrollTop);
    at.current = top ? { key: String(top.key), offset: scrollTop - top.start } : null;
    askOlder();
  });
  const rested = useEvent(() => {
    if (!lost.current) savePosition(sessionId, left === null ? null : at.current);
  });
  useEffect(() => {
    const element = place.current;
    if (!element) return;
    element.addEventListener("scroll", scrolled, { passive: true });
    element.addEventListener("scrollend", rested, { passive: true });
    return () => {
      element.removeEventListener("scroll", scrolled);
      element.removeEventListener("scrollend", rested);
    };
  }, [scrolled, rested]);

  const hold = useEvent((key?: string) => {
    setLeft((before) => before ?? last);
    // Once it is drawn and measured: where the end is in view, it is followed again.
    afterFrames(3, () => {
      if (place.current && key !== undefined) reveal(place.current, key);
      if (place.current && distance(place.current) < 2) setLeft(null);
    });
  });
  const toEnd = useCallback(() => {
    at.current = null;
    setLeft(null);
  }, []);
  // Who sends something wants to see what comes of it.
  useEffect(() => onSent((id) => id === sessionId && toEnd()), [sessionId, toEnd]);
  const seen = left === null ? -1 : items.findIndex((item) => item.key === left);
  const unseen = left === null || !far ? null : seen < 0 ? 0 : items.length - 1 - seen;
  return { place, list, unseen, away: left !== null, toEnd, hold };
}

function distance(element: HTMLElement): number {
  return element.scrollHeight - element.scrollTop - element.clientHeight;
}

/** Scrolls as far as is needed to see all of an item, but never past its top. */
function reveal(view: HTMLElement, key: string): void {
  const item = view.querySelector(`[data-key="${CSS.escape(key)}"]`)?.getBoundingClientRect();
  const { top, bottom } = view.getBoundingClientRect();
  if (item && item.bottom > bottom) view.scrollTop += Math.min(item.bottom - bottom, item.top - top);
}

function afterFrames(count: number, deed: () => void): void {
  requestAnimationFrame(() => (count > 1 ? afterFrames(count - 1, deed) : deed()));
}

/** Opens where the reader was. True until that has been scrolled to; false when the end is where it opens. */
function useOpening(sessionId: string, items: readonly Item[], list: List): RefObject<boolean> {
  const opened = useRef(false);
  const restored = useRef(false);
  useLayoutEffect(() => {
    if (opened.current || items.length === 0) return;
    opened.current = true;
    const position = readPosition(sessionId);
    const at = position ? items.findIndex((item) => item.key === position.key) : -1;
    const start = at < 0 ? undefined : list.getOffsetForIndex(at, "start");
    if (!position || !start) return;
    restored.current = true;
    list.scrollToOffset(start[0] + position.offset);
  }, [sessionId, items, list]);
  return restored;
}

interface Reading {
  readonly at: RefObject<Position | null>;
  readonly items: readonly Item[];
  readonly more: boolean;
  readonly snapshotVersion: number;
  readonly onHistory: () => Promise<unknown>;
}

/** Whoever reads further up when all is told anew gets back to where they were: what is older is asked for until it is
 * there. True while it is looked for. */
function useLost({ at, items, more, snapshotVersion, onHistory }: Reading, list: List): RefObject<boolean> {
  const lost = useRef(false);
  const asking = useRef(false);
  const known = useRef(snapshotVersion);
  useLayoutEffect(() => {
    if (known.current !== snapshotVersion) lost.current = at.current !== null;
    known.current = snapshotVersion;
    if (!lost.current || at.current === null) return;
    const { key, offset } = at.current;
    const found = items.findIndex((item) => item.key === key);
    const start = found < 0 ? undefined : list.getOffsetForIndex(found, "start");
    if (start) list.scrollToOffset(start[0] + offset);
    if (start || !more) lost.current = false;
    else if (!asking.current) {
      asking.current = true;
      // Not yet: whoever loads them learns of the rows that are here now after this.
      afterFrames(1, () => {
        const { count } = list.options;
        void onHistory().finally(() => {
          asking.current = false;
          // Where nothing came, there is nothing to wait for.
          afterFrames(3, () => {
            if (list.options.count === count) lost.current = false;
          });
        });
      });
    }
  }, [at, items, more, snapshotVersion, onHistory, list]);
  return lost;
}
