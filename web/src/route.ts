// The page's routes, as addresses that can be bookmarked and shared.

import { useSyncExternalStore } from "react";

export const SETTINGS_TABS = ["agents", "rules", "devices", "general", "diagnostics"] as const;
export type SettingsTab = (typeof SETTINGS_TABS)[number];

export type Route =
  | { view: "home" }
  | { view: "needs" }
  | { view: "new"; agent?: string; cwd?: string }
  /** `anchor`: the row to show, as `m-<id>`. `beside`: on a phone, the side panel instead of the conversation. */
  | { view: "session"; id: string; anchor?: string; beside?: true }
  /** `session`: the session whose frames the diagnostics show. */
  | { view: "settings"; tab: SettingsTab; session?: string };

const BESIDE = "beside";

export function parseRoute(url: URL): Route {
  const [first = "", second = "", ...rest] = url.pathname.split("/").slice(1).map(decoded);
  const [third, ...more] = rest;
  if (more.length > 0 || (third !== undefined && (first !== "s" || third !== BESIDE))) return { view: "home" };
  switch (first) {
    case "s":
      if (second === "") return { view: "home" };
      return {
        view: "session",
        id: second,
        ...optionalField("anchor", url.hash.slice(1)),
        ...(third === BESIDE ? { beside: true } : {}),
      };
    case "needs":
      return { view: "needs" };
    case "new": {
      const agent = url.searchParams.get("agent") ?? "";
      return {
        view: "new",
        ...optionalField("agent", agent),
        ...optionalField("cwd", url.searchParams.get("cwd") ?? ""),
      };
    }
    case "settings": {
      const tab = SETTINGS_TABS.find((name) => name === second) ?? "agents";
      return { view: "settings", tab, ...optionalField("session", url.searchParams.get("session") ?? "") };
    }
    default:
      return { view: "home" };
  }
}

export function formatRoute(route: Route): string {
  switch (route.view) {
    case "home":
      return "/";
    case "needs":
      return "/needs";
    case "new":
      return `/new${query({ agent: route.agent, cwd: route.cwd })}`;
    case "session":
      return `/s/${encodeURIComponent(route.id)}${route.beside ? `/${BESIDE}` : ""}${route.anchor === undefined ? "" : `#${route.anchor}`}`;
    case "settings":
      return `/settings/${route.tab}${query({ session: route.session })}`;
  }
}

/** The only id that begins so: the command line prints and takes ids that are cut. Null if it is one itself. */
export function completeId(part: string, ids: readonly string[]): string | null {
  if (ids.includes(part)) return null;
  const matching = ids.filter((id) => id.startsWith(part));
  return matching.length === 1 ? (matching[0] ?? null) : null;
}

function decoded(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return ""; // someone typed a percent sign
  }
}

function optionalField<K extends string>(name: K, value: string): Partial<Record<K, string>> {
  return value === "" ? {} : ({ [name]: value } as Partial<Record<K, string>>);
}

function query(fields: Record<string, string | undefined>): string {
  const search = new URLSearchParams();
  for (const [name, value] of Object.entries(fields)) if (value !== undefined) search.set(name, value);
  return search.size > 0 ? `?${search}` : "";
}

// -- in the browser

const watchers = new Set<() => void>();
let current: { href: string; route: Route } | null = null;

function watch(watcher: () => void): () => void {
  watchers.add(watcher);
  addEventListener("popstate", watcher);
  addEventListener("hashchange", watcher);
  return () => {
    watchers.delete(watcher);
    removeEventListener("popstate", watcher);
    removeEventListener("hashchange", watcher);
  };
}

function currentRoute(): Route {
  if (current?.href !== location.href) current = { href: location.href, route: parseRoute(new URL(location.href)) };
  return current.route;
}

export function useRoute(): Route {
  return useSyncExternalStore(watch, currentRoute);
}

export function navigate(route: Route, how: "push" | "replace" = "push"): void {
  const address = formatRoute(route);
  if (how === "replace") history.replaceState(null, "", address);
  else history.pushState(null, "", address);
  for (const watcher of watchers) watcher();
}
