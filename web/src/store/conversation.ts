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
export function applySnapshot(conversation: ConversationState | null, message: SessionSnapshot): ConversationState {
  const { session, state, details, cursor } = message;
  if (message.resumed && conversation !== null) return { ...conversation, session, state, details, cursor };
  const snapshotVersion = conversation === null ? 0 : conversation.snapshotVersion + 1;
  return {
    session,
    state,
    details,
    cursor,
    rows: message.rows,
    more: message.more,
    before: message.before,
    snapshotVersion,
  };
}

export function applyUpdate(conversation: ConversationState, message: SessionUpdate): ConversationState {
  return { ...message.changes.reduce(applyChange, conversation), cursor: message.cursor };
}

/** Adds older rows that were requested. */
export function prependHistory(conversation: ConversationState, history: HistoryPage): ConversationState {
  return {
    ...conversation,
    rows: putOlder(conversation.rows, history.rows),
    more: history.more,
    before: history.before,
  };
}

/** Drops the oldest rows if there are too many. */
export function trimRows(conversation: ConversationState): ConversationState {
  if (countRows(conversation.rows) <= MAX_ROWS) return conversation;
  const before = startPosition(conversation.rows, TRIMMED_ROWS);
  return { ...conversation, rows: rowsFrom(conversation.rows, before), more: true, before };
}

function applyChange(conversation: ConversationState, change: Change): ConversationState {
  switch (change.op) {
    case "put":
      // A row from before the loaded range is ignored: alone it would leave a gap.
      if (isOlder(conversation, change.row) && !hasRow(conversation.rows, change.row)) return conversation;
      return { ...conversation, rows: putRow(conversation.rows, change.row) };
    case "remove":
      return { ...conversation, rows: removeRow(conversation.rows, change.table, change.id) };
    case "append":
      return { ...conversation, rows: appendText(conversation.rows, change) };
    case "session":
      return { ...conversation, session: change.session };
    case "details":
      return { ...conversation, details: change.details };
    case "state":
      return { ...conversation, state: change.state };
  }
}

function isOlder({ more, before }: ConversationState, row: Row): boolean {
  return more && "position" in row && row.position < before;
}
