// One session as the page knows it, and what each message makes of it. Pure: the same messages in the same order give
// the same state, whatever else happened in between. `tables.ts` has the rows.

import type { Change, History, Live, Rows, SessionItem, SessionSnapshot, SessionUpdate, State } from "../protocol";
import { appended, put, putOlder, removed } from "./tables";

export interface Conversation {
  readonly session: SessionItem;
  readonly live: Live;
  readonly state: State;
  readonly rows: Rows;
  /** There are older rows than these, whose `place` is below `before`. */
  readonly more: boolean;
  readonly before: number;
  readonly cursor: string;
}

/** `known` is what was there before, if anything: where the server says so, it is gone on with. */
export function snapshot(known: Conversation | null, message: SessionSnapshot): Conversation {
  const { session, live, state, cursor } = message;
  if (message.resumed && known !== null) return { ...known, session, live, state, cursor };
  return { session, live, state, cursor, rows: message.rows, more: message.more, before: message.before };
}

export function update(known: Conversation, message: SessionUpdate): Conversation {
  return { ...message.changes.reduce(changed, known), cursor: message.cursor };
}

/** Older rows, which were asked for. */
export function older(known: Conversation, history: History): Conversation {
  return { ...known, rows: putOlder(known.rows, history.rows), more: history.more, before: history.before };
}

function changed(known: Conversation, change: Change): Conversation {
  switch (change.op) {
    case "put":
      // Rows that were never asked for stay where they are: one of them alone would leave a gap.
      if (known.more && "place" in change.row && change.row.place < known.before) return known;
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
