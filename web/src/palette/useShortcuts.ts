import { useLayoutEffect, useRef } from "react";

import { isTyping } from "../permission";
import { isDialogOpen } from "../ui/overlays";

/** Keys that work wherever one is in the page. Those without Ctrl or ⌘ rest while something is typed. */
export function useShortcuts(keys: Readonly<Record<string, () => void>>): void {
  const current = useRef(keys);
  current.current = keys;
  // Not later than what is drawn: who sees the page may press.
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
