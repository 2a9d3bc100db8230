import { useState, type KeyboardEvent, type PointerEvent } from "react";

const STORAGE_KEY = "dragoman.panel.width";
const MIN_WIDTH_PX = 280;
const MAX_WIDTH_PX = 1100;
const DEFAULT_WIDTH_PX = 420;

export interface Width {
  readonly now: number;
  readonly set: (width: number) => void;
}

export function useWidth(): Width {
  const [now, setNow] = useState(() => within(Number(localStorage.getItem(STORAGE_KEY)) || DEFAULT_WIDTH_PX));
  const set = (width: number) => {
    setNow(within(width));
    localStorage.setItem(STORAGE_KEY, String(within(width)));
  };
  return { now, set };
}

function within(width: number): number {
  return Math.round(Math.min(MAX_WIDTH_PX, Math.max(MIN_WIDTH_PX, width)));
}

/** The edge of the panel, which is dragged, or moved by the arrow keys. */
export function Resizer({ width }: { width: Width }) {
  const drag = (event: PointerEvent<HTMLDivElement>) => {
    const edge = event.currentTarget.parentElement?.getBoundingClientRect().right ?? innerWidth;
    if (event.currentTarget.hasPointerCapture(event.pointerId)) width.set(edge - event.clientX);
  };
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowLeft: 24, ArrowRight: -24 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    width.set(width.now + by);
  };
  return (
    <div
      className="resizer"
      role="separator"
      aria-orientation="vertical"
      aria-label="Width of the panel"
      aria-valuenow={width.now}
      aria-valuemin={MIN_WIDTH_PX}
      aria-valuemax={MAX_WIDTH_PX}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={drag}
      onKeyDown={keys}
    />
  );
}
