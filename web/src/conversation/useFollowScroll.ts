// The virtual list of a conversation: draws what is in view, follows the end until the reader scrolls up, and keeps
// the reader's position. `followScroll.ts` decides; this connects it with the page.

import { useVirtualizer, type Virtualizer } from "@tanstack/react-virtual";
import { useCallback, useEffect, useLayoutEffect, useRef, useState, useSyncExternalStore, type RefObject } from "react";

import { useEvent } from "../ui/useEvent";
import { estimateHeight } from "./estimateHeight";
import { FollowScroll, isAtEnd } from "./followScroll";
import type { Item } from "./items";
import { readPosition, savePosition, type Position } from "./position";
import { onSent } from "./promptSent";

/** Pixels: nearer than this to the top, older rows are requested. */
const NEAR_TOP_PX = 600;

export type ItemList = Virtualizer<HTMLDivElement, Element>;

export interface FollowedList {
  readonly viewRef: RefObject<HTMLDivElement | null>;
  readonly list: ItemList;
  /** Items that came while the reader was elsewhere; null while no button to the end is needed. */
  readonly unseen: number | null;
  /** The reader is elsewhere than at the end. */
  readonly isAway: boolean;
  readonly scrollToEnd: () => void;
  /** Stops following, because an item is toggled or scrolled to; `key` is the item that should be in view then. */
  readonly hold: (key?: string) => void;
}

interface Options {
  sessionId: string;
  items: readonly Item[];
  more: boolean;
  /** Changes when the server sent all rows again. */
  snapshotVersion: number;
  onHistory: () => Promise<unknown>;
  /** The reader has just scrolled up. */
  onLeave: () => void;
}

export function useFollowScroll(options: Options): FollowedList {
  const { sessionId, items, more, onHistory, onLeave } = options;
  const viewRef = useRef<HTMLDivElement>(null);
  /** The reader's position while it is not the end. */
  const position = useRef<Position | null>(null);
  const isLoading = useRef(false);
  const [follow] = useState(() => new FollowScroll());
  const { leftAt } = useSyncExternalStore(follow.subscribe, follow.current);
  const list = useVirtualizer<HTMLDivElement, Element>({
    count: items.length,
    getScrollElement: () => viewRef.current,
    getItemKey: useCallback((index: number) => items[index]?.key ?? index, [items]),
    estimateSize: (index) => {
      const item = items[index];
      return item ? estimateHeight(item) : 28;
    },
    overscan: 6,
    paddingStart: more ? 48 : 16, // room for the button that loads older rows
    paddingEnd: 24,
    // Keeps the visible rows in place when older ones are inserted. The end is followed here, not by the list.
    anchorTo: leftAt === null ? "start" : "end",
    scrollEndThreshold: -1,
    useFlushSync: false,
  });
  const lastKey = items.at(-1)?.key ?? null;
  const contentHeight = list.getTotalSize();

  const record = useEvent((view: HTMLElement) => {
    follow.record(view);
    // The list updates its offset only with the next frame, and would correct size changes by the old offset until
    // then.
    list.scrollOffset = view.scrollTop;
  });
  useRestoredPosition(options, list, follow);
  useSearchedPosition(options, list, follow, position);
  const followEnd = useEvent(() => {
    const view = viewRef.current;
    if (!view) return;
    // If both moved the view, the list would go by an old offset, and that would look as if the reader scrolled up.
    list.shouldAdjustScrollPositionOnItemSizeChange = follow.isFollowing ? () => false : undefined;
    if (!follow.isFollowing) {
      follow.measure(view);
      return;
    }
    view.scrollTop = view.scrollHeight;
    record(view);
  });
  useLayoutEffect(followEnd, [followEnd, items, leftAt, contentHeight]);
  // The list renders again only if other items come into view, so a view that a banner made shorter is observed here.
  useEffect(() => {
    const view = viewRef.current;
    if (!view) return;
    const observer = new ResizeObserver(followEnd);
    observer.observe(view);
    return () => observer.disconnect();
  }, [followEnd]);

  const loadOlder: () => void = useEvent(() => {
    const view = viewRef.current;
    // A reader at the end did not scroll up, however near the top that is.
    if (!view || !more || view.scrollTop >= NEAR_TOP_PX || isAtEnd(view) || isLoading.current) return;
    const { count } = list.options;
    isLoading.current = true;
    void onHistory().finally(() => {
      isLoading.current = false;
      // The reader may still be near the top, without another scroll event.
      afterFrames(3, () => list.options.count > count && loadOlder());
    });
  });
  const onScroll = useEvent(() => {
    const view = viewRef.current;
    if (!view) return;
    const hasLeft = follow.scroll(view, lastKey);
    record(view);
    if (follow.isSearching) return;
    if (hasLeft) onLeave(); // at once, before the next rows come and the oldest are dropped
    const top = isAtEnd(view) ? undefined : list.getVirtualItemForOffset(view.scrollTop);
    position.current = top ? { key: String(top.key), offset: view.scrollTop - top.start } : null;
    loadOlder();
  });
  const onScrollEnd = useEvent(() => {
    if (!follow.isSearching) savePosition(sessionId, follow.current().leftAt === null ? null : position.current);
  });
  useEffect(() => {
    const view = viewRef.current;
    if (!view) return;
    view.addEventListener("scroll", onScroll, { passive: true });
    view.addEventListener("scrollend", onScrollEnd, { passive: true });
    return () => {
      view.removeEventListener("scroll", onScroll);
      view.removeEventListener("scrollend", onScrollEnd);
    };
  }, [onScroll, onScrollEnd]);

  const hold = useEvent((key?: string) => {
    follow.leave(lastKey);
    // After the item is rendered and measured: if the end is in view, follow it again.
    afterFrames(3, () => {
      const view = viewRef.current;
      if (!view) return;
      if (key !== undefined) reveal(view, key);
      if (isAtEnd(view)) follow.follow();
    });
  });
  const scrollToEnd = useCallback(() => {
    position.current = null;
    follow.follow();
  }, [follow]);
  // A person who sends a prompt wants to see the answer.
  useEffect(() => onSent((id) => id === sessionId && scrollToEnd()), [sessionId, scrollToEnd]);
  const unseen = follow.countUnseen(items.map((item) => item.key));
  return { viewRef, list, unseen, isAway: leftAt !== null, scrollToEnd, hold };
}

/** Opens a session at the reader's last position, or at the end. */
function useRestoredPosition({ sessionId, items }: Options, list: ItemList, follow: FollowScroll): void {
  const isOpened = useRef(false);
  useLayoutEffect(() => {
    if (isOpened.current || items.length === 0) return;
    isOpened.current = true;
    const saved = readPosition(sessionId);
    const offset = saved && offsetOf(saved, items, list);
    if (typeof offset !== "number") return;
    follow.restore();
    list.scrollToOffset(offset);
  }, [sessionId, items, list, follow]);
}

/** After the server sent all rows again, brings a reader back to their position: older rows are requested until the
 * item is there. */
function useSearchedPosition(
  { items, more, snapshotVersion, onHistory }: Options,
  list: ItemList,
  follow: FollowScroll,
  position: RefObject<Position | null>,
): void {
  const isLoading = useRef(false);
  const seenVersion = useRef(snapshotVersion);
  useLayoutEffect(() => {
    if (seenVersion.current !== snapshotVersion && position.current !== null) follow.search();
    seenVersion.current = snapshotVersion;
    if (!follow.isSearching || position.current === null) return;
    const offset = offsetOf(position.current, items, list);
    if (offset !== null) list.scrollToOffset(offset);
    if (offset !== null || !more) {
      follow.settle();
      return;
    }
    if (isLoading.current) return;
    isLoading.current = true;
    // With the next frame: the callback that loads rows learns of the new ones only after this effect.
    afterFrames(1, () => {
      const { count } = list.options;
      void onHistory().finally(() => {
        isLoading.current = false;
        // If no rows came, stop waiting.
        afterFrames(3, () => {
          if (list.options.count === count) follow.settle();
        });
      });
    });
  }, [position, items, more, snapshotVersion, onHistory, list, follow]);
}

function offsetOf({ key, offset }: Position, items: readonly Item[], list: ItemList): number | null {
  const index = items.findIndex((item) => item.key === key);
  const start = index < 0 ? undefined : list.getOffsetForIndex(index, "start");
  return start ? start[0] + offset : null;
}

/** Scrolls as far as is needed to see the whole item, but never past its top. */
function reveal(view: HTMLElement, key: string): void {
  const item = view.querySelector(`[data-key="${CSS.escape(key)}"]`)?.getBoundingClientRect();
  const { top, bottom } = view.getBoundingClientRect();
  if (item && item.bottom > bottom) view.scrollTop += Math.min(item.bottom - bottom, item.top - top);
}

function afterFrames(count: number, act: () => void): void {
  requestAnimationFrame(() => (count > 1 ? afterFrames(count - 1, act) : act()));
}
