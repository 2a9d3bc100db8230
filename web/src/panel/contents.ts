// The contents of the panel: of the loaded rows, and of earlier ones. Pure.

import { approvedOf, changesOf, type FileChanges } from "../diff/changes";
import type { Rows, Terminal } from "../protocol";
import { NO_EARLIER_CONTENTS, type EarlierContents } from "./earlierContents";
import type { Panel, Tab } from "./usePanel";

type PanelChoice = Pick<Panel, "file" | "tab" | "open">;

/** Details are there of every session: they alone are no reason to open the panel. */
export function tabsOf(
  rows: Rows,
  panel: Pick<Panel, "file">,
  earlier: EarlierContents = NO_EARLIER_CONTENTS,
): readonly Tab[] {
  const tabs: Tab[] = [];
  if (hasChanges(rows) || earlier.files.length > 0) tabs.push("changes");
  if (rows.plans.some((plan) => plan.entries.length > 0 || plan.markdown !== null)) tabs.push("plan");
  if (rows.terminals.length > 0 || earlier.terminals.length > 0) tabs.push("terminals");
  if (panel.file) tabs.push("file");
  tabs.push("details");
  return tabs;
}

function hasChanges(rows: Rows): boolean {
  return (
    rows.tool_calls.some((call) => call.status === "completed" && call.content.some((item) => item.type === "diff")) ||
    approvedOf(rows).length > 0 ||
    rows.file_calls.some((call) => call.diff !== null && call.operation === "write" && call.status === "done")
  );
}

export function isOpen(rows: Rows, panel: PanelChoice, earlier: EarlierContents = NO_EARLIER_CONTENTS): boolean {
  return panel.open ?? tabsOf(rows, panel, earlier).length > 1;
}

export function shownTab(tabs: readonly Tab[], chosen: Tab | null): Tab {
  return tabs.find((tab) => tab === chosen) ?? tabs[0] ?? "details";
}

/** A file that was changed. `diffs` are those that are here; `elsewhere` is how many are not. */
export interface ChangedFile extends FileChanges {
  readonly elsewhere: number;
}

/** The one that was changed last comes first. */
export function filesOf(
  rows: Pick<Rows, "tool_calls" | "file_calls" | "permissions">,
  earlier: EarlierContents,
  runId: string | null,
): readonly ChangedFile[] {
  const before = new Map(earlier.files.map((file) => [file.path, file]));
  const here = changesOf(rows, runId ?? undefined).map((file): ChangedFile => {
    const more = before.get(file.path);
    before.delete(file.path);
    return {
      ...file,
      added: file.added + (more?.added ?? 0),
      removed: file.removed + (more?.removed ?? 0),
      created: more?.created ?? file.created,
      elsewhere: more?.changes ?? 0,
    };
  });
  const others = [...before.values()].map(
    ({ changes, ...file }): ChangedFile => ({ ...file, diffs: [], elsewhere: changes }),
  );
  return [...here, ...others];
}

/** All terminals in order. Earlier ones have no output yet. */
export function terminalsOf(rows: Rows, earlier: EarlierContents): readonly Terminal[] {
  const here = new Set(rows.terminals.map((terminal) => terminal.id));
  return [...earlier.terminals.filter((terminal) => !here.has(terminal.id)), ...rows.terminals];
}
