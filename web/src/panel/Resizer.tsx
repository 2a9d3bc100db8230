import { useState, type KeyboardEvent, type PointerEvent } from "react";

const KEY = "dragoman.panel.width";
const LEAST = 280;
const MOST = 1100;
const FIRST = 420;

export interface Width {
  readonly now: number;
  readonly set: (width: number) => void;
}

export function useWidth(): Width {
  const [now, setNow] = useState(() => within(Number(localStorage.getItem(KEY)) || FIRST));
  const set = (width: number) => {
    setNow(within(width));
    localStorage.setItem(KEY, String(within(width)));
  };
  return { now, set };
}

function within(width: number): number {
  return Math.round(Math.min(MOST, Math.max(LEAST, width)));
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
      aria-valuemin={LEAST}
      aria-valuemax={MOST}
      tabIndex={0}
      onPointerDown={(event) => event.currentTarget.setPointerCapture(event.pointerId)}
      onPointerMove={drag}
      onKeyDown={keys}
    />
  );
}
