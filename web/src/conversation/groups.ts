// Groups of steps: several small ones in a row become one line, such as "7 reads, 2 searches". Pure.

import { plural } from "../ui/format";
import type { Step } from "./steps";

/** So many small steps in a row are shown one by one. */
const MAX_UNGROUPED = 3;

const SMALL_KINDS = new Set(["read", "search", "fetch", "think", "other"]);

/** True for a successful step that only looked at something. */
export function isSmall(step: Step): boolean {
  const quiet = step.diffs.length === 0 && step.children.length === 0;
  return SMALL_KINDS.has(step.kind) && step.state === "done" && quiet && step.permission === null;
}

/** A row of steps, in parts: each is one step, or several that are folded. While they go on, the last are shown. */
export function groupSteps(steps: readonly Step[], going: boolean): (Step | readonly Step[])[] {
  const result: (Step | readonly Step[])[] = [];
  let row: Step[] = [];
  const close = (last: boolean) => {
    const shown = last && going ? Math.min(MAX_UNGROUPED, row.length) : 0;
    const folded = row.slice(0, row.length - shown);
    if (folded.length > MAX_UNGROUPED) result.push(folded, ...row.slice(row.length - shown));
    else result.push(...row);
    row = [];
  };
  for (const step of steps) {
    if (isSmall(step)) {
      row.push(step);
    } else {
      close(false);
      result.push(step);
    }
  }
  close(true);
  return result;
}

const KIND_NAMES: Readonly<Record<string, [string, string]>> = {
  read: ["read", "reads"],
  search: ["search", "searches"],
  fetch: ["fetch", "fetches"],
  think: ["thought", "thoughts"],
};

/** `7 reads, 2 searches` */
export function summarizeSteps(steps: readonly Step[]): string {
  const counts = new Map<string, number>();
  for (const { kind } of steps) counts.set(kind, (counts.get(kind) ?? 0) + 1);
  return [...counts]
    .map(([kind, count]) => plural(count, ...(KIND_NAMES[kind] ?? ["other call", "other calls"])))
    .join(", ");
}
