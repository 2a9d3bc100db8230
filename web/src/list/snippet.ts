// A snippet with the places that matched in it.

export interface SnippetPart {
  readonly text: string;
  readonly isMatch: boolean;
}

/** `marks` as the server gives them: from, to, in order. Those that make no sense are left out. */
export function splitByMarks(snippet: string, marks: readonly (readonly [number, number])[]): readonly SnippetPart[] {
  const pieces: SnippetPart[] = [];
  let at = 0;
  for (const [from, to] of marks) {
    if (from < at || to <= from || to > snippet.length) continue;
    if (from > at) pieces.push({ text: snippet.slice(at, from), isMatch: false });
    pieces.push({ text: snippet.slice(from, to), isMatch: true });
    at = to;
  }
  if (at < snippet.length) pieces.push({ text: snippet.slice(at), isMatch: false });
  return pieces;
}
