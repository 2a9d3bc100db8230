import { useLayoutEffect, useRef } from "react";

import { isTyping } from "../permission/keys";
import { isDialogOpen } from "../ui/overlays";

/** Shortcuts for the whole page. Those without Ctrl or ⌘ are off while the user types or a dialog is open. */
export function useShortcuts(keys: Readonly<Record<string, () => void>>): void {
  const current = useRef(keys);
  current.current = keys;
  // A layout effect, so that keys work from the first paint on.
  useLayoutEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      const command = event.metaKey || event.ctrlKey;
      if (event.defaultPrevented || event.altKey || (!command && (isTyping(event.target) || isDialogOpen()))) return;
      const act = current.current[command ? `mod+${event.key.toLowerCase()}` : event.key];
      if (act === undefined) return;
      event.preventDefault();
      act();
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
}
