import { useVirtualizer } from "@tanstack/react-virtual";
import { useRef, useState } from "react";

import type { Frame } from "../protocol";
import { frameLine, frameText } from "./frames";

const LINE_HEIGHT_PX = 26; // px

/** Thousands of frames, of which only those in sight are in the page. */
export function FrameList({ frames }: { frames: readonly Frame[] }) {
  const box = useRef<HTMLDivElement>(null);
  const [open, setOpen] = useState<string | null>(null);
  const rows = useVirtualizer({
    count: frames.length,
    getScrollElement: () => box.current,
    estimateSize: () => LINE_HEIGHT_PX,
    getItemKey: (at) => frames[at]?.cursor ?? at,
    overscan: 10,
  });
  return (
    <div className="frames" ref={box} tabIndex={0} role="region" aria-label="Frames">
      <ol style={{ height: rows.getTotalSize() }}>
        {rows.getVirtualItems().map((row) => {
          const frame = frames[row.index];
          if (frame === undefined) return null;
          const shown = open === frame.cursor;
          return (
            <li
              key={row.key}
              ref={rows.measureElement}
              data-index={row.index}
              style={{ transform: `translateY(${row.start}px)` }}
            >
              <button type="button" aria-expanded={shown} onClick={() => setOpen(shown ? null : frame.cursor)}>
                {frameLine(frame)}
              </button>
              {shown && <pre>{frameText(frame)}</pre>}
            </li>
          );
        })}
      </ol>
    </div>
  );
}
