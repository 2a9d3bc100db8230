// The changed files, from the diffs of tool calls and from files that the host wrote. Pure.

import { permissionAnswer } from "../permission/describe";
import type { DiffItem, FileCall, Rows, ToolCall } from "../protocol";
import { diffOf, type Counts } from "./hunks";

export interface FileChanges extends Counts {
  readonly path: string;
  /** In the order they were made. Those that go on from each other are one. */
  readonly diffs: readonly DiffItem[];
  readonly created: boolean;
}

/** The changes of a session, or of one run. The file that was changed last comes first. */
export function changesOf(
  rows: Pick<Rows, "tool_calls" | "file_calls" | "permissions">,
  runId?: string,
): readonly FileChanges[] {
  const made: { place: number; diff: DiffItem }[] = [];
  const mine = (row: ToolCall | FileCall) => runId === undefined || row.run_id === runId;
  for (const call of rows.tool_calls) {
    // One that waits for an answer, or failed, changed nothing.
    if (call.status !== "completed" || !mine(call)) continue;
    for (const item of call.content) if (item.type === "diff") made.push({ place: call.position, diff: item });
  }
  for (const call of rows.file_calls) {
    if (call.diff && call.operation === "write" && call.status === "done" && mine(call)) {
      made.push({ place: call.position, diff: call.diff });
    }
  }
  for (const { call, diff } of approvedOf(rows)) {
    const isReported = made.some((one) => one.place >= call.position && one.diff.path === diff.path);
    if (!isReported && mine(call)) made.push({ place: call.position, diff });
  }
  made.sort((a, b) => a.place - b.place);
  const files = new Map<string, readonly DiffItem[]>();
  for (const { diff } of made) {
    const known = files.get(diff.path);
    // Taken out and put in again: the map keeps the order of the last change.
    files.delete(diff.path);
    files.set(diff.path, known ? joined(known, diff) : [diff]);
  }
  return [...files].map(([path, diffs]) => summed(path, diffs)).reverse();
}

/** Diffs that were approved and then applied: some agents show a diff only in the permission request. */
export function approvedOf(
  rows: Pick<Rows, "tool_calls" | "permissions">,
): readonly { readonly call: ToolCall; readonly diff: DiffItem }[] {
  return rows.permissions.flatMap((permission) => {
    const diffs = permission.content.filter((item) => item.type === "diff");
    if (diffs.length === 0 || permissionAnswer(permission) !== "allowed") return [];
    const call = rows.tool_calls.find((one) => one.id === permission.tool_call_row);
    return call?.status === "completed" ? diffs.map((diff) => ({ call, diff })) : [];
  });
}

/** The changes of one file and the next one: those that go on from each other are one. */
export function joined(known: readonly DiffItem[], next: DiffItem): readonly DiffItem[] {
  const last = known.at(-1);
  if (last === undefined) return [next];
  // The tool call's diff and the host's write describe the same change.
  if (last.new_text === next.new_text && (last.old_text ?? "") === (next.old_text ?? "")) return known;
  if (last.new_text === next.old_text) return [...known.slice(0, -1), merged(last, next)];
  return [...known, next];
}

const mergedBefore = new WeakMap<DiffItem, { last: DiffItem; merged: DiffItem }>();

/** Cached, so that the merged diff is computed once. */
function merged(last: DiffItem, next: DiffItem): DiffItem {
  const before = mergedBefore.get(next);
  if (before?.last === last) return before.merged;
  const made: DiffItem = { ...next, old_text: last.old_text };
  mergedBefore.set(next, { last, merged: made });
  return made;
}

function summed(path: string, diffs: readonly DiffItem[]): FileChanges {
  const counts = total(diffs);
  return { path, diffs, created: diffs[0]?.old_text === null, ...counts };
}

export function total(diffs: readonly DiffItem[]): Counts {
  return diffs
    .map(diffOf)
    .reduce((sum: Counts, diff) => ({ added: sum.added + diff.added, removed: sum.removed + diff.removed }), {
      added: 0,
      removed: 0,
    });
}
