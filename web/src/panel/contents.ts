// The tabs of the panel, and their terminals. Pure.

import type { Rows, Terminal } from "../protocol";
import { NO_SESSION_CHANGES, type SessionChanges } from "./served";
import type { Panel, Tab } from "./usePanel";

type PanelChoice = Pick<Panel, "file" | "tab" | "open">;

/** Details are there of every session: they alone are no reason to open the panel. */
export function tabsOf(
  rows: Rows,
  panel: Pick<Panel, "file">,
  changes: SessionChanges = NO_SESSION_CHANGES,
): readonly Tab[] {
  const tabs: Tab[] = [];
  if (changes.files.length > 0 || changes.isLoading) tabs.push("changes"); // at once, so that the layout stays
  if (rows.plans.some((plan) => plan.entries.length > 0 || plan.markdown !== null)) tabs.push("plan");
  if (rows.terminals.length > 0 || changes.terminals.length > 0) tabs.push("terminals");
  if (panel.file) tabs.push("file");
  tabs.push("details");
  return tabs;
}

export function isOpen(rows: Rows, panel: PanelChoice, changes: SessionChanges = NO_SESSION_CHANGES): boolean {
  return panel.open ?? tabsOf(rows, panel, changes).length > 1;
}

export function shownTab(tabs: readonly Tab[], chosen: Tab | null): Tab {
  return tabs.find((tab) => tab === chosen) ?? tabs[0] ?? "details";
}

/** All terminals in order. Those of rows that are not loaded have no output yet. */
export function terminalsOf(rows: Rows, changes: SessionChanges): readonly Terminal[] {
  const loaded = new Set(rows.terminals.map((terminal) => terminal.id));
  return [...changes.terminals.filter((terminal) => !loaded.has(terminal.id)), ...rows.terminals];
}
