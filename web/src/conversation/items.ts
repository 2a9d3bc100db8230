// The items of the conversation: the rows of a session in order, run by run, as a flat list. Each item has a stable
// key. Pure except for the cache.

import { splitIntoPieces, type Pieces } from "../markdown/pieces";
import type { Message, Notice, Permission, Question, Row, Rows, Run, SessionFailure } from "../protocol";
import { groupSteps } from "./groups";
import { flattenSteps, isSameList, stepsOf, type Step, type StepRow } from "./steps";

export type Item =
  | { readonly kind: "user"; readonly key: string; readonly message: Message; readonly open: boolean }
  | {
      readonly kind: "text";
      readonly key: string;
      /** Of the last piece alone: the others stay as they are, and would hold on to all that the message ever was. */
      readonly message: Message | null;
      readonly text: string;
      readonly first: boolean;
      readonly streaming: boolean;
    }
  | {
      readonly kind: "thought";
      readonly key: string;
      readonly message: Message;
      readonly seconds: number | null;
      readonly streaming: boolean;
      readonly open: boolean;
    }
  | {
      readonly kind: "step";
      readonly key: string;
      readonly step: Step;
      readonly depth: number;
      readonly open: boolean;
      readonly cut: boolean;
    }
  | { readonly kind: "group"; readonly key: string; readonly steps: readonly Step[]; readonly open: boolean }
  | { readonly kind: "permission"; readonly key: string; readonly permission: Permission; readonly keys: boolean }
  | { readonly kind: "question"; readonly key: string; readonly question: Question }
  | { readonly kind: "notice"; readonly key: string; readonly notice: Notice; readonly open: boolean }
  | {
      readonly kind: "end";
      readonly key: string;
      readonly run: Run;
      readonly rows: readonly TimelineRow[];
      /** The run succeeded without a message or a step. */
      readonly isSilent: boolean;
      /** The agent's current error; only the last run shows it. */
      readonly problem: SessionFailure | null;
    };

export type TimelineRow = Exclude<Row, { table: "plans" | "runs" }>;

export type ExpandableItem = Extract<Item, { readonly open: boolean }>;

/** What the reader expanded (true) or collapsed (false), by key; other items have their default. */
export type OpenState = ReadonlyMap<string, boolean>;

/** The rows of a run. Rows before the first run, or between two runs, belong to none. */
interface RunRows {
  readonly run: Run | null;
  readonly rows: readonly TimelineRow[];
}

/** The items of a run, with what they were made of. */
interface RunItems extends RunRows {
  readonly opened: OpenState;
  readonly problem: SessionFailure | null;
  readonly steps: ReadonlyMap<string, Step>;
  readonly pieces: ReadonlyMap<string, Pieces>;
  readonly items: readonly Item[];
}

/** Builds the items and remembers them: an item that did not change is the same object, and is not rendered again. */
export class ItemBuilder {
  private runs: readonly RunItems[] = [];
  private known: ReadonlyMap<string, Item> = new Map();

  of(rows: Rows, opened: OpenState, problem: SessionFailure | null): readonly Item[] {
    const before = new Map(this.runs.map((run) => [runKey(run), run]));
    const runs = splitByRun(rows);
    const last = runs.findLast(({ run }) => run !== null);
    this.runs = runs.map((run) => buildRun(run, before.get(runKey(run)), opened, run === last ? problem : null));
    const built = this.runs.flatMap(({ items }) => items);
    // The number keys answer the first pending permission.
    const first = built.findIndex((item) => item.kind === "permission" && item.permission.outcome === "pending");
    const items = built.map((item, index) =>
      this.reuse(index === first && item.kind === "permission" ? { ...item, keys: true } : item),
    );
    this.known = new Map(items.map((item) => [item.key, item]));
    return items;
  }

  private reuse(item: Item): Item {
    const known = this.known.get(item.key);
    return known !== undefined && (known === item || isSameItem(known, item)) ? known : item;
  }
}

function runKey({ run, rows }: RunRows): string | undefined {
  return run?.id ?? rows[0]?.id;
}

function splitByRun(tables: Rows): readonly RunRows[] {
  const rows: TimelineRow[] = [
    ...tables.messages,
    ...tables.tool_calls,
    ...tables.permissions,
    ...tables.file_calls,
    ...tables.terminals,
    ...tables.questions,
    ...tables.notices,
  ].sort((a, b) => a.position - b.position);
  const runs: RunRows[] = [];
  const starts: (Run | null)[] = [null, ...tables.runs];
  let from = 0;
  starts.forEach((run, index) => {
    const next = starts[index + 1];
    let to = from;
    while (to < rows.length && (!next || (rows[to] as TimelineRow).position < next.position)) to++;
    const end = run === null ? to : findRunEnd(rows, from, to);
    if (run !== null || end > from) runs.push({ run, rows: rows.slice(from, end) });
    if (end < to) runs.push({ run: null, rows: rows.slice(end, to) });
    from = to;
  });
  return runs;
}

/** The index where the rows of a run end: before a prompt that no run answers, such as a command of the agent program
 * itself. */
function findRunEnd(rows: readonly TimelineRow[], from: number, to: number): number {
  for (let index = from; index < to; index++) {
    const row = rows[index] as TimelineRow;
    if (row.table === "messages" && row.kind === "user" && row.run_id === null) return index;
  }
  return to;
}

function buildRun(
  { run, rows: current }: RunRows,
  known: RunItems | undefined,
  opened: OpenState,
  problem: SessionFailure | null,
): RunItems {
  const isKnown = known !== undefined && known.run === run && isSameList(known.rows, current);
  if (isKnown && known.opened === opened && known.problem === problem) return known;
  const rows = isKnown ? known.rows : current;
  const going = run?.status === "running";
  const steps = stepsOf(rows.filter(isStepRow), known?.steps ?? new Map());
  const isShown = (row: TimelineRow, index: number) =>
    steps.top.has(row.id) || isRowShown(row, going && index === rows.length - 1, steps.mergedPermissions);
  const lastShown = rows.findLastIndex(isShown);
  const pieces = new Map<string, Pieces>();
  const items: Item[] = [];
  let inRow: Step[] = [];
  const addSteps = (isLast: boolean) => {
    for (const part of groupSteps(inRow, isLast && going)) {
      items.push(...("key" in part ? stepItems(part, opened, 0, going) : groupItems(part, opened, going)));
    }
    inRow = [];
  };
  rows.forEach((row, index) => {
    const step = steps.top.get(row.id);
    if (step) inRow.push(step);
    if (step || !isShown(row, index)) return;
    addSteps(false);
    const open = opened.get(row.id) ?? false;
    switch (row.table) {
      case "messages": {
        const next = rows[index + 1];
        const streaming = going && index === lastShown && !row.ended;
        if (row.kind === "user") items.push({ kind: "user", key: row.id, message: row, open });
        else if (row.kind === "thought") {
          const seconds = next ? Math.max(0, next.time - row.time) : null;
          items.push({ kind: "thought", key: row.id, message: row, seconds, streaming, open });
        } else {
          const split = splitIntoPieces(row.text, known?.pieces.get(row.id));
          pieces.set(row.id, split);
          items.push(...textItems(row, split.texts, streaming));
        }
        break;
      }
      case "permissions":
        items.push({ kind: "permission", key: row.id, permission: row, keys: false });
        break;
      case "questions":
        items.push({ kind: "question", key: row.id, question: row });
        break;
      case "notices":
        items.push({ kind: "notice", key: row.id, notice: row, open });
    }
  });
  addSteps(true);
  if (run && !going) {
    const isSilent = run.status === "success" && rows.every((row) => row.table === "messages" && row.kind === "user");
    items.push({ kind: "end", key: `end-${run.id}`, run, rows, isSilent, problem });
  }
  const stepsByKey = new Map(flattenSteps(steps.top.values()).map((step) => [step.key, step]));
  return { run, rows, opened, problem, steps: stepsByKey, pieces, items };
}

function isStepRow(row: TimelineRow): row is StepRow {
  return row.table !== "messages" && row.table !== "questions" && row.table !== "notices";
}

/** True for a row that is an item by itself. `mayGrow`: it is the last one of a run that goes on. */
function isRowShown(row: TimelineRow, mayGrow: boolean, merged: ReadonlySet<Permission>): boolean {
  switch (row.table) {
    case "messages":
      return row.text !== "" || row.blocks.length > 0 || mayGrow;
    case "permissions":
      return !merged.has(row);
    case "questions":
    case "notices":
      return true;
    default:
      return false;
  }
}

function textItems(message: Message, texts: readonly string[], streaming: boolean): Item[] {
  const last = texts.length - 1;
  return texts.map((text, index) => ({
    kind: "text",
    key: index === 0 ? message.id : `${message.id}/${index}`,
    message: index === last ? message : null,
    text,
    first: index === 0,
    streaming: streaming && index === last,
  }));
}

/** A group of small steps and, if it is expanded, these steps. */
function groupItems(steps: readonly Step[], opened: OpenState, going: boolean): Item[] {
  const key = `group-${steps[0]?.key ?? ""}`;
  const open = opened.get(key) ?? false;
  const inside = open ? steps.flatMap((step) => stepItems(step, opened, 1, going)) : [];
  return [{ kind: "group", key, steps, open }, ...inside];
}

/** A step and, if it is expanded, its children. */
function stepItems(step: Step, opened: OpenState, depth: number, going: boolean): Item[] {
  // A completed edit is expanded at first: its changes are what people look for.
  const open = opened.get(step.key) ?? (step.diffs.length > 0 && step.state === "done");
  const cut = !going && (step.state === "running" || step.state === "waiting");
  const below = open ? step.children.flatMap((child) => stepItems(child, opened, depth + 1, going)) : [];
  return [{ kind: "step", key: step.key, step, depth, open, cut }, ...below];
}

/** True if both would look the same. */
function isSameItem(one: Item, other: Item): boolean {
  if (one.kind === "group" && other.kind === "group") {
    return one.open === other.open && isSameList(one.steps, other.steps);
  }
  return (Object.keys(other) as (keyof Item)[]).every((field) => one[field] === other[field]);
}
