import { useSyncExternalStore } from "react";

export type DiffLayout = "unified" | "split";

const STORAGE_KEY = "dragoman.diff";
const watchers = new Set<() => void>();
let layout: DiffLayout | null = null;

/** How this browser shows diffs, everywhere. */
export function useDiffLayout(): DiffLayout {
  return useSyncExternalStore(watch, current);
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

function current(): DiffLayout {
  layout ??= localStorage.getItem(STORAGE_KEY) === "split" ? "split" : "unified";
  return layout;
}

function choose(next: DiffLayout): void {
  layout = next;
  localStorage.setItem(STORAGE_KEY, next);
  for (const watcher of watchers) watcher();
}

export function LayoutSwitch() {
  const chosen = useDiffLayout();
  return (
    <span className="switch" role="group" aria-label="Diff layout">
      {(["unified", "split"] as const).map((one) => (
        <button
          key={one}
          type="button"
          className="small-button"
          aria-pressed={chosen === one}
          onClick={() => choose(one)}
        >
          {one === "unified" ? "Unified" : "Split"}
        </button>
      ))}
    </span>
  );
}
