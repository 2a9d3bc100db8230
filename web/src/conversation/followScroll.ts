// A state machine that decides whether a conversation follows its end. It is fed with scroll positions; no React, no
// DOM.

/** Pixels: a reader who scrolls down to within this distance of the end follows it again. */
export const NEAR_END_PX = 48;
/** Pixels: nearer than this to the end no button leads there, because it would cover the last lines. */
export const FAR_FROM_END_PX = 120;
/** Pixels: closer than this to the end counts as at the end, because browsers round. */
const AT_END_PX = 2;

/** The measures of the scrolled element, in pixels. */
export interface ScrollMetrics {
  readonly scrollTop: number;
  readonly scrollHeight: number;
  readonly clientHeight: number;
}

export interface FollowState {
  /** The key of the last item when the reader left the end; null while the end is followed. */
  readonly leftAt: string | null;
  /** The reader is so far from the end that a button leads back to it. */
  readonly isFar: boolean;
}

type Phase =
  | "settled"
  /** A saved position was scrolled to; the next scroll event is that one, and not the reader's. */
  | "restoring"
  /** The rows were replaced, and the reader's position is looked for among older ones: scroll events say nothing. */
  | "searching";

export function distanceToEnd({ scrollTop, scrollHeight, clientHeight }: ScrollMetrics): number {
  return scrollHeight - scrollTop - clientHeight;
}

export function isAtEnd(metrics: ScrollMetrics): boolean {
  return distanceToEnd(metrics) < AT_END_PX;
}

/** Follows the end until the reader scrolls up, and again once they are back there. */
export class FollowScroll {
  private state: FollowState = { leftAt: null, isFar: false };
  private phase: Phase = "settled";
  private lastTop = 0;
  private lastHeight = 0;
  private readonly listeners = new Set<() => void>();

  // -- as useSyncExternalStore wants it

  readonly current = (): FollowState => this.state;

  readonly subscribe = (listener: () => void): (() => void) => {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  };

  get isFollowing(): boolean {
    return this.state.leftAt === null && this.phase !== "restoring";
  }

  get isSearching(): boolean {
    return this.phase === "searching";
  }

  restore(): void {
    this.phase = "restoring";
  }

  search(): void {
    this.phase = "searching";
  }

  settle(): void {
    this.phase = "settled";
  }

  /** Records the position, so that the next scroll event shows in which direction the view moved. */
  record({ scrollTop, scrollHeight }: ScrollMetrics): void {
    this.lastTop = scrollTop;
    this.lastHeight = scrollHeight;
  }

  /** Updates `isFar` after the content changed while the end is not followed. */
  measure(metrics: ScrollMetrics): void {
    this.update({ isFar: distanceToEnd(metrics) > FAR_FROM_END_PX });
  }

  /** Handles a scroll event; `lastKey` is the key of the last item. Returns true if the reader has just left the end. */
  scroll(metrics: ScrollMetrics, lastKey: string | null): boolean {
    const { scrollTop, scrollHeight } = metrics;
    // Content that became shorter moves the view too, without the reader.
    const wentUp = scrollTop < this.lastTop - 1 && scrollHeight >= this.lastHeight;
    const wentDown = scrollTop > this.lastTop;
    const wasRestored = this.phase === "restoring";
    this.record(metrics);
    if (this.phase === "searching") return false;
    this.phase = "settled";
    const distance = distanceToEnd(metrics);
    this.update({ isFar: distance > FAR_FROM_END_PX });
    // Content that grows below the view moves nothing; content that shrinks above it leaves the reader at the end.
    if (isAtEnd(metrics) || (wentDown && distance < NEAR_END_PX)) {
      this.follow();
      return false;
    }
    if (!wentUp && !wasRestored) return false;
    const hasLeft = this.state.leftAt === null;
    this.leave(lastKey);
    return hasLeft || wentUp;
  }

  leave(lastKey: string | null): void {
    if (this.state.leftAt === null) this.update({ leftAt: lastKey });
  }

  follow(): void {
    this.update({ leftAt: null });
  }

  /** Counts the items that came since the reader left the end; null while no button leads there. */
  countUnseen(keys: readonly string[]): number | null {
    const { leftAt, isFar } = this.state;
    if (leftAt === null || !isFar) return null;
    const index = keys.indexOf(leftAt);
    return index < 0 ? 0 : keys.length - 1 - index;
  }

  private update(change: Partial<FollowState>): void {
    const next = { ...this.state, ...change };
    if (next.leftAt === this.state.leftAt && next.isFar === this.state.isFar) return;
    this.state = next;
    for (const listener of this.listeners) listener();
  }
}
