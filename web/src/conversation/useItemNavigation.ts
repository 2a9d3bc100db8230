// The keys j and k move between items, o expands the focused one.

import type { Virtualizer } from "@tanstack/react-virtual";
import { useEffect } from "react";

import { isTyping } from "../permission/keys";
import { isDialogOpen } from "../ui/overlays";
import type { Item, ExpandableItem } from "./items";
import { useEvent } from "../ui/useEvent";

type List = Virtualizer<HTMLDivElement, Element>;

export function useItemNavigation(items: readonly Item[], list: List, toggle: (item: ExpandableItem) => void): void {
  const press = useEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
    if (isDialogOpen()) return;
    const at = focusedIndex(items);
    const item = at === null ? undefined : items[at];
    if (event.key === "j" || event.key === "k") moveFocus(items, list, at, event.key === "j" ? 1 : -1);
    else if (event.key === "o" && item && "open" in item) toggle(item);
    else return;
    event.preventDefault();
  });
  useEffect(() => {
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [press]);
}

/** The item that has the focus, or something in it. */
function focusedIndex(items: readonly Item[]): number | null {
  const key = document.activeElement?.closest<HTMLElement>("[data-key]")?.dataset.key;
  const at = key === undefined ? -1 : items.findIndex((item) => item.key === key);
  return at < 0 ? null : at;
}

function moveFocus(items: readonly Item[], list: List, from: number | null, by: 1 | -1): void {
  let at = from ?? firstInView(list, by) - by;
  let item: Item | undefined;
  do {
    at += by;
    item = items[at];
  } while (item && !isStop(item));
  if (!item) return;
  list.scrollToIndex(at, { align: "auto" });
  focusSoon(item.key);
}

function isStop(item: Item): boolean {
  return item.kind === "text" ? item.first : item.kind !== "end";
}

function firstInView(list: List, by: 1 | -1): number {
  const range = list.range;
  return range ? (by === 1 ? range.startIndex : range.endIndex) : 0;
}

/** Retries for some frames, because the item may not be rendered yet. */
function focusSoon(key: string, tries = 10): void {
  const element = document.querySelector<HTMLElement>(`[data-key="${CSS.escape(key)}"]`);
  if (element) element.focus({ preventScroll: true });
  else if (tries > 0) requestAnimationFrame(() => focusSoon(key, tries - 1));
}
