// The rows of a session in order, run by run. Pure; a segment that did not change is the same object, so that only
// changed ones render again.

import type { Message, Notice, Permission, Question, Row, Rows, Run } from "../protocol";
import { groupSteps } from "./groups";
import { flattenSteps, stepsOf, type Step, type StepRow } from "./steps";

export type Entry =
  | { readonly kind: "message"; readonly message: Message; readonly seconds: number | null }
  | { readonly kind: "step"; readonly step: Step }
  | { readonly kind: "group"; readonly steps: readonly Step[] }
  | { readonly kind: "permission"; readonly permission: Permission }
  | { readonly kind: "question"; readonly question: Question }
  | { readonly kind: "notice"; readonly notice: Notice };

/** A run and its rows. Rows before the first run, or between two runs, form segments without a run. */
export interface Segment {
  readonly run: Run | null;
  readonly entries: readonly Entry[];
  /** The run succeeded without a message or a step. */
  readonly isSilent: boolean;
  readonly rows: readonly TimelineRow[];
  readonly steps: ReadonlyMap<string, Step>;
}

type TimelineRow = Exclude<Row, { table: "plans" | "runs" }>;

export function buildSegments(rows: Rows, before: readonly Segment[] = []): readonly Segment[] {
  const placed: TimelineRow[] = [
    ...rows.messages,
    ...rows.tool_calls,
    ...rows.permissions,
    ...rows.file_calls,
    ...rows.terminals,
    ...rows.questions,
    ...rows.notices,
  ].sort((a, b) => a.position - b.position);
  const known = new Map(before.map((segment) => [segment.run?.id ?? segment.rows[0]?.id, segment]));
  const segments: Segment[] = [];
  const starts: (Run | null)[] = [null, ...rows.runs];
  let from = 0;
  starts.forEach((run, index) => {
    const next = starts[index + 1];
    let to = from;
    while (to < placed.length && (!next || (placed[to] as TimelineRow).position < next.position)) to++;
    const end = run === null ? to : findRunEnd(placed, from, to);
    const add = (its: Run | null, first: number, last: number) =>
      segments.push(buildSegment(its, placed, first, last, known.get(its?.id ?? placed[first]?.id)));
    if (run !== null || end > from) add(run, from, end);
    if (end < to) add(null, end, to);
    from = to;
  });
  return segments;
}

/** The index where the rows of a run end: before a prompt that no run answers, such as a command of the agent program
 * itself. */
function findRunEnd(placed: readonly TimelineRow[], from: number, to: number): number {
  for (let at = from; at < to; at++) {
    const row = placed[at] as TimelineRow;
    if (row.table === "messages" && row.kind === "user" && row.run_id === null) return at;
  }
  return to;
}

function buildSegment(
  run: Run | null,
  placed: readonly TimelineRow[],
  from: number,
  to: number,
  known: Segment | undefined,
): Segment {
  if (
    known &&
    known.run === run &&
    known.rows.length === to - from &&
    known.rows.every((row, at) => row === placed[from + at])
  ) {
    return known;
  }
  const rows = placed.slice(from, to);
  const going = run?.status === "running";
  const steps = stepsOf(rows.filter(isStepRow), known?.steps ?? new Map());
  const entries: Entry[] = [];
  let inRow: Step[] = [];
  const close = (last: boolean) => {
    for (const part of groupSteps(inRow, last && going)) {
      entries.push("key" in part ? { kind: "step", step: part } : { kind: "group", steps: part });
    }
    inRow = [];
  };
  rows.forEach((row, at) => {
    const step = steps.top.get(row.id);
    if (step) {
      inRow.push(step);
      return;
    }
    const entry = buildEntry(row, rows[at + 1], steps.mergedPermissions, going);
    if (!entry) return;
    close(false);
    entries.push(entry);
  });
  close(true);
  const heard = rows.some((row) => row.table !== "messages" || row.kind !== "user");
  return {
    run,
    entries,
    isSilent: run?.status === "success" && !heard,
    rows,
    steps: new Map(flattenSteps(steps.top.values()).map((step) => [step.key, step])),
  };
}

function isStepRow(row: TimelineRow): row is StepRow {
  return row.table !== "messages" && row.table !== "questions" && row.table !== "notices";
}

function buildEntry(
  row: TimelineRow,
  next: TimelineRow | undefined,
  taken: ReadonlySet<Permission>,
  going: boolean,
): Entry | null {
  switch (row.table) {
    case "messages":
      if (row.text === "" && row.blocks.length === 0 && !(going && next === undefined)) return null;
      return { kind: "message", message: row, seconds: next ? Math.max(0, next.time - row.time) : null };
    case "permissions":
      return taken.has(row) ? null : { kind: "permission", permission: row };
    case "questions":
      return { kind: "question", question: row };
    case "notices":
      return { kind: "notice", notice: row };
    default:
      return null;
  }
}
