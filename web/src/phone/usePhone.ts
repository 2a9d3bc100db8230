import { useSyncExternalStore } from "react";

/** As in the style sheets: below this there is room for one pane. */
const PHONE = matchMedia("(max-width: 719px)");

function watch(watcher: () => void): () => void {
  PHONE.addEventListener("change", watcher);
  return () => PHONE.removeEventListener("change", watcher);
}

/** Whether there is room for one pane only. */
export function usePhone(): boolean {
  return useSyncExternalStore(watch, () => PHONE.matches);
}
