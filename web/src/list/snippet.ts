// The matches of a search: how many, and a snippet with the places that matched in it.

import { plural } from "../ui/format";

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

/** The title above the matches. `isCut`: there are more than these. */
export function describeMatches(count: number, isCut: boolean): string {
  if (count === 0) return "No matches in messages";
  return `${isCut ? "The best " : ""}${plural(count, "match", "matches")} in messages`;
}
