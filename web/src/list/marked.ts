// A snippet with the places that matched in it.

export interface Piece {
  readonly text: string;
  readonly hit: boolean;
}

/** `marks` as the server gives them: from, to, in order. Those that make no sense are left out. */
export function marked(snippet: string, marks: readonly (readonly [number, number])[]): readonly Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  for (const [from, to] of marks) {
    if (from < at || to <= from || to > snippet.length) continue;
    if (from > at) pieces.push({ text: snippet.slice(at, from), hit: false });
    pieces.push({ text: snippet.slice(from, to), hit: true });
    at = to;
  }
  if (at < snippet.length) pieces.push({ text: snippet.slice(at), hit: false });
  return pieces;
}
