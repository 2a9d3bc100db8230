// Escape, pressed twice, stops the run.

import { useEffect, useRef, useState } from "react";

import { isOverlayOpen } from "../ui/overlays";
import { useEvent } from "../ui/useEvent";

/** Milliseconds within which the second press must come; a single Escape may be meant for a menu. */
const DOUBLE_PRESS_MS = 1500;

/** True after the first press, until the second or for a while. */
export function useDoubleEscape(running: boolean, stop: () => void): boolean {
  const [armed, setArmed] = useState(false);
  const overlayOpen = useRef(false);
  // Before anything hears of the key: whatever it closes is still open then.
  const before = useEvent(() => {
    overlayOpen.current = isOverlayOpen();
  });
  const press = useEvent((event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.repeat || overlayOpen.current) return;
    if (armed) stop();
    setArmed(!armed);
  });
  useEffect(() => {
    if (!running) return;
    document.addEventListener("keydown", before, true);
    document.addEventListener("keydown", press);
    return () => {
      document.removeEventListener("keydown", before, true);
      document.removeEventListener("keydown", press);
      setArmed(false);
    };
  }, [running, before, press]);
  useEffect(() => {
    if (!armed) return;
    const timer = setTimeout(() => setArmed(false), DOUBLE_PRESS_MS);
    return () => clearTimeout(timer);
  }, [armed]);
  return armed;
}
