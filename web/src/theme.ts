// The theme: light, dark or as the system, chosen per device. public/early.js applies it at load.

import { useSyncExternalStore } from "react";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

export const THEME_NAMES: Readonly<Record<Theme, string>> = {
  system: "System",
  light: "Light",
  dark: "Dark",
};

const STORAGE_KEY = "dragoman.theme";
const watchers = new Set<() => void>();

function current(): Theme {
  return THEMES.find((theme) => theme === document.documentElement.dataset.theme) ?? "system";
}

function show(theme: string | null): void {
  const { dataset } = document.documentElement;
  if (theme === "light" || theme === "dark") dataset.theme = theme;
  else delete dataset.theme;
  for (const watcher of watchers) watcher();
}

export function chooseTheme(theme: Theme): void {
  show(theme);
  try {
    if (theme === "system") localStorage.removeItem(STORAGE_KEY);
    else localStorage.setItem(STORAGE_KEY, theme);
  } catch {
    // Without storage the choice lasts until the page is reloaded.
  }
}

/** Applies the theme that another tab of this browser chooses. */
export function followTheme(): void {
  addEventListener("storage", (event) => {
    if (event.key === STORAGE_KEY || event.key === null) show(event.newValue);
  });
}

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  return () => watchers.delete(watcher);
}

export function useTheme(): Theme {
  return useSyncExternalStore(watch, current);
}
