// The state of one session, and how messages change it. Pure: the same messages in the same order give the same state.
// `tables.ts` has the rows.

import type {
  Change,
  HistoryPage,
  SessionState,
  Row,
  Rows,
  SessionItem,
  SessionSnapshot,
  SessionUpdate,
  SessionDetails,
} from "../protocol";
import { appendText, countRows, hasRow, putRow, putOlder, removeRow, rowsFrom, startPosition } from "./tables";

/** Limits on the rows of a conversation whose end is followed: beyond the first, the oldest are dropped down to the
 * second. That is many screens; older rows are loaded again on demand. */
const MAX_ROWS = 800;
const TRIMMED_ROWS = 400;

export interface ConversationState {
  readonly session: SessionItem;
  readonly state: SessionState;
  readonly details: SessionDetails;
  readonly rows: Rows;
  /** There are older rows than these, whose `position` is below `before`. */
  readonly more: boolean;
  readonly before: number;
  readonly cursor: string;
  /** Counts full snapshots: rows may have disappeared with each. */
  readonly snapshotVersion: number;
}

/** Applies a snapshot. A resumed one continues `known`, the previous state. */
export function applySnapshot(known: ConversationState | null, message: SessionSnapshot): ConversationState {
  const { session, state: live, details: state, cursor } = message;
  if (message.resumed && known !== null) return { ...known, session, state: live, details: state, cursor };
  const snapshotVersion = known === null ? 0 : known.snapshotVersion + 1;
  return {
    session,
    state: live,
    details: state,
    cursor,
    rows: message.rows,
    more: message.more,
    before: message.before,
    snapshotVersion,
  };
}

export function applyUpdate(known: ConversationState, message: SessionUpdate): ConversationState {
  return { ...message.changes.reduce(applyChange, known), cursor: message.cursor };
}

/** Adds older rows that were requested. */
export function prependHistory(known: ConversationState, history: HistoryPage): ConversationState {
  return { ...known, rows: putOlder(known.rows, history.rows), more: history.more, before: history.before };
}

/** Drops the oldest rows if there are too many. */
export function trimRows(known: ConversationState): ConversationState {
  if (countRows(known.rows) <= MAX_ROWS) return known;
  const before = startPosition(known.rows, TRIMMED_ROWS);
  return { ...known, rows: rowsFrom(known.rows, before), more: true, before };
}

function applyChange(known: ConversationState, change: Change): ConversationState {
  switch (change.op) {
    case "put":
      // A row from before the loaded range is ignored: alone it would leave a gap.
      if (isOlder(known, change.row) && !hasRow(known.rows, change.row)) return known;
      return { ...known, rows: putRow(known.rows, change.row) };
    case "remove":
      return { ...known, rows: removeRow(known.rows, change.table, change.id) };
    case "append":
      return { ...known, rows: appendText(known.rows, change) };
    case "session":
      return { ...known, session: change.session };
    case "details":
      return { ...known, details: change.details };
    case "state":
      return { ...known, state: change.state };
  }
}

function isOlder({ more, before }: ConversationState, row: Row): boolean {
  return more && "position" in row && row.position < before;
}
