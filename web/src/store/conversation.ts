// One session as the page knows it, and what each message makes of it. Pure: the same messages in the same order give
// the same state, whatever else happened in between. `tables.ts` has the rows.

import type { Change, History, Live, Row, Rows, SessionItem, SessionSnapshot, SessionUpdate, State } from "../protocol";
import { appended, countOf, has, put, putOlder, removed, since, startOf } from "./tables";

/** Rows that are held of a conversation whose end is followed, whatever comes: past the first number the oldest go, down
 * to the second. That is many screens; who goes up further has them loaded again. */
const MOST = 800;
const HELD = 400;

export interface Conversation {
  readonly session: SessionItem;
  readonly live: Live;
  readonly state: State;
  readonly rows: Rows;
  /** There are older rows than these, whose `place` is below `before`. */
  readonly more: boolean;
  readonly before: number;
  readonly cursor: string;
  /** How often all of it was told anew: rows that were here may have gone each time. */
  readonly anew: number;
}

/** `known` is what was there before, if anything: where the server says so, it is gone on with. */
export function snapshot(known: Conversation | null, message: SessionSnapshot): Conversation {
  const { session, live, state, cursor } = message;
  if (message.resumed && known !== null) return { ...known, session, live, state, cursor };
  const anew = known === null ? 0 : known.anew + 1;
  return { session, live, state, cursor, rows: message.rows, more: message.more, before: message.before, anew };
}

export function update(known: Conversation, message: SessionUpdate): Conversation {
  return { ...message.changes.reduce(changed, known), cursor: message.cursor };
}

/** Older rows, which were asked for. */
export function older(known: Conversation, history: History): Conversation {
  return { ...known, rows: putOlder(known.rows, history.rows), more: history.more, before: history.before };
}

/** The same with the oldest rows let go, where there are too many. */
export function trimmed(known: Conversation): Conversation {
  if (countOf(known.rows) <= MOST) return known;
  const before = startOf(known.rows, HELD);
  return { ...known, rows: since(known.rows, before), more: true, before };
}

function changed(known: Conversation, change: Change): Conversation {
  switch (change.op) {
    case "put":
      // Rows that were never asked for stay where they are: one of them alone would leave a gap.
      if (isOlder(known, change.row) && !has(known.rows, change.row)) return known;
      return { ...known, rows: put(known.rows, change.row) };
    case "remove":
      return { ...known, rows: removed(known.rows, change.table, change.id) };
    case "append":
      return { ...known, rows: appended(known.rows, change) };
    case "session":
      return { ...known, session: change.session };
    case "state":
      return { ...known, state: change.state };
    case "live":
      return { ...known, live: change.live };
  }
}

function isOlder({ more, before }: Conversation, row: Row): boolean {
  return more && "place" in row && row.place < before;
}
