import { useSyncExternalStore } from "react";

/** A hook that says whether a media query matches, updated when it changes. */
function mediaQueryHook(query: string): () => boolean {
  const list = matchMedia(query);
  const watch = (watcher: () => void) => {
    list.addEventListener("change", watcher);
    return () => list.removeEventListener("change", watcher);
  };
  return () => useSyncExternalStore(watch, () => list.matches);
}

/** As in the style sheets: there is room for one pane only. */
export const useIsPhone = mediaQueryHook("(max-width: 719px)");

/** There is no room for much beside a title. */
export const useIsNarrow = mediaQueryHook("(max-width: 1099px)");
