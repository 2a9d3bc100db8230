// The reader's position in a session, stored while the tab is open. It is relative to the top item, because heights
// change.

export interface Position {
  readonly key: string;
  /** How far the top of the view is below the top of that item. */
  readonly offset: number;
}

const storageKey = (sessionId: string) => `dragoman.position.${sessionId}`;

/** Null means the end, which is where a session opens. */
export function readPosition(sessionId: string): Position | null {
  try {
    const stored: unknown = JSON.parse(sessionStorage.getItem(storageKey(sessionId)) ?? "null");
    return isPosition(stored) ? stored : null;
  } catch {
    return null;
  }
}

export function savePosition(sessionId: string, position: Position | null): void {
  try {
    if (position) sessionStorage.setItem(storageKey(sessionId), JSON.stringify(position));
    else sessionStorage.removeItem(storageKey(sessionId));
  } catch {
    // A browser that keeps nothing opens at the end.
  }
}

function isPosition(value: unknown): value is Position {
  return (
    typeof value === "object" &&
    value !== null &&
    "key" in value &&
    typeof value.key === "string" &&
    "offset" in value &&
    typeof value.offset === "number"
  );
}
