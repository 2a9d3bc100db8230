// Which tabs have something in them, and which one is shown. Pure.

import { approvedOf } from "../diff/changes";
import type { Rows } from "../protocol";
import type { Panel, Tab } from "./usePanel";

type Told = Pick<Panel, "file" | "tab" | "open">;

/** Details are there of every session: they alone are no reason to open the panel. */
export function tabsOf(rows: Rows, panel: Pick<Panel, "file">): readonly Tab[] {
  const tabs: Tab[] = [];
  const changed = rows.tool_calls.some(
    (call) => call.status === "completed" && call.content.some((item) => item.type === "diff"),
  );
  if (
    changed ||
    approvedOf(rows).length > 0 ||
    rows.file_calls.some((call) => call.diff !== null && call.operation === "write" && call.status === "done")
  )
    tabs.push("changes");
  if (rows.plans.some((plan) => plan.entries.length > 0 || plan.markdown !== null)) tabs.push("plan");
  if (rows.terminals.length > 0) tabs.push("terminals");
  if (panel.file) tabs.push("file");
  tabs.push("details");
  return tabs;
}

export function isOpen(rows: Rows, panel: Told): boolean {
  return panel.open ?? tabsOf(rows, panel).length > 1;
}

export function shownTab(tabs: readonly Tab[], chosen: Tab | null): Tab {
  return tabs.find((tab) => tab === chosen) ?? tabs[0] ?? "details";
}
