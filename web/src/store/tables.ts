// The rows of a session: each table is in the order of `position`, which a row keeps for as long as it is there. So a row
// is found by halving, and the newest, which change most, at once.

import type { Append, Message, Row, Rows, Table } from "../protocol";

type Sorted = { readonly id: string; readonly position: number };
type PositionedRow = Exclude<Row, { table: "plans" }>;

export const TABLES: readonly Table[] = [
  "runs",
  "messages",
  "tool_calls",
  "plans",
  "permissions",
  "file_calls",
  "terminals",
  "questions",
  "notices",
];

export const NO_ROWS: Rows = {
  runs: [],
  messages: [],
  tool_calls: [],
  plans: [],
  permissions: [],
  file_calls: [],
  terminals: [],
  questions: [],
  notices: [],
};

/** Characters of a message that grows here; a longer one is cut, and loaded on demand. */
const MAX_MESSAGE_CHARS = 1_000_000;

export function putRow(rows: Rows, row: Row): Rows {
  if (row.table === "messages" && row.shortened) row = withKnownText(rows, row);
  // The table is named by the row itself, which the compiler cannot follow through an index.
  if (row.table === "plans") return { ...rows, plans: putUnsorted(rows.plans, row) };
  return { ...rows, [row.table]: putSorted(rows[row.table] as readonly Sorted[], row) };
}

export function removeRow(rows: Rows, table: Table, id: string): Rows {
  const current: readonly { readonly id: string }[] = rows[table];
  return { ...rows, [table]: current.filter((row) => row.id !== id) };
}

/** Appends to a message. An unknown message is among older rows that are not loaded. */
export function appendText(rows: Rows, more: Append): Rows {
  const index = rows.messages.findLastIndex((message) => message.id === more.message_id);
  const message = rows.messages[index];
  // What follows a part that was left out would be in the wrong place.
  if (message === undefined || message.shortened) return rows;
  const isTooLong = message.text.length + more.text.length > MAX_MESSAGE_CHARS;
  const grown: Message = isTooLong
    ? { ...message, shortened: true }
    : {
        ...message,
        text: message.text + more.text,
        blocks: more.blocks.length > 0 ? [...message.blocks, ...more.blocks] : message.blocks,
        shortened: more.shortened,
      };
  return { ...rows, messages: rows.messages.with(index, grown) };
}

/** A message that was followed while it grew is known beyond what the server sends of it at its end. */
function withKnownText(rows: Rows, message: Message): Message {
  const known = rows.messages.findLast(({ id }) => id === message.id);
  if (known === undefined || known.text.length <= message.text.length || !known.text.startsWith(message.text)) {
    return message;
  }
  return { ...message, text: known.text, blocks: known.blocks, shortened: known.shortened };
}

export function hasRow(rows: Rows, { table, id }: Row): boolean {
  const current: readonly Row[] = rows[table];
  return current.some((row) => row.id === id);
}

export function countRows(rows: Rows): number {
  return TABLES.reduce((sum, table) => sum + rows[table].length, 0);
}

/** The position where the last `count` rows begin. */
export function startPosition(rows: Rows, count: number): number {
  const positions = positionedRows(rows).map((row) => row.position);
  positions.sort((one, other) => other - one);
  return positions[Math.min(count, positions.length) - 1] ?? 0;
}

/** The rows from a position on, the run that it is in, and everything that is not finished. */
export function rowsFrom(rows: Rows, position: number): Rows {
  const run = rows.runs.findLast((one) => one.position <= position);
  const running = new Set(rows.runs.filter((one) => one.status === "running").map((one) => one.id));
  const goesOn = (row: PositionedRow): boolean => {
    switch (row.table) {
      case "runs":
        return row === run || running.has(row.id);
      case "permissions":
        return row.outcome === "pending";
      case "questions":
        return row.action === "pending";
      case "tool_calls":
      case "terminals":
        return row.ended_time === null && running.has(row.run_id ?? "");
      default:
        return false;
    }
  };
  const remaining: Record<string, readonly Row[]> = {};
  for (const table of TABLES) {
    const current: readonly Row[] = rows[table];
    remaining[table] = current.filter((row) => row.table === "plans" || row.position >= position || goesOn(row));
  }
  return remaining as unknown as Rows;
}

function positionedRows(rows: Rows): PositionedRow[] {
  return TABLES.flatMap((table): readonly Row[] => rows[table]).filter((row) => row.table !== "plans");
}

/** Older rows come before those that are known; of one that is known already, the known is the newer. */
export function putOlder(rows: Rows, before: Rows): Rows {
  const merged: Record<string, readonly Row[]> = {};
  for (const table of TABLES) {
    const current: readonly Row[] = rows[table];
    const ids = new Set(current.map((row) => row.id));
    const older: readonly Row[] = before[table];
    // A row that is not finished is loaded although it began before some of the older ones.
    merged[table] = [...older.filter((row) => !ids.has(row.id)), ...current].sort(byPosition);
  }
  return merged as unknown as Rows;
}

function byPosition(one: Row, other: Row): number {
  return "position" in one && "position" in other ? one.position - other.position : 0;
}

function putSorted<T extends Sorted>(current: readonly T[], row: T): readonly T[] {
  let low = 0;
  let high = current.length;
  const last = current[high - 1];
  if (last === undefined || last.position < row.position) return [...current, row];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((current[middle] as T).position < row.position) low = middle + 1;
    else high = middle;
  }
  for (let index = low; current[index]?.position === row.position; index++) {
    if (current[index]?.id === row.id) return current.with(index, row);
    high = index + 1;
  }
  return current.toSpliced(high, 0, row);
}

function putUnsorted<T extends { readonly id: string }>(current: readonly T[], row: T): readonly T[] {
  const index = current.findIndex((other) => other.id === row.id);
  return index < 0 ? [...current, row] : current.with(index, row);
}
