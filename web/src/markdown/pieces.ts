// A long text in pieces, cut between blocks. Each piece is drawn on its own, so that a message of any length costs the
// page only what is in view, and what is appended to it changes its last piece alone.

import { blocksOf, normalizeNewlines } from "./grammar";

/** A piece is about half a screen: small enough to be drawn in one frame, large enough that there are few of them. */
const PIECE_CHARS = 1500;
/** A paragraph beyond this is no prose that anyone wrote; it is cut between words, for to draw it takes seconds. */
const MAX_PARAGRAPH_CHARS = 4 * PIECE_CHARS;

export interface Pieces {
  readonly source: string;
  /** Together they are the source. All but the last never change again. */
  readonly texts: readonly string[];
}

/** Cuts a text; given the pieces of what it was before, looks only at what is not settled yet. */
export function splitIntoPieces(source: string, before?: Pieces): Pieces {
  const text = normalizeNewlines(source);
  if (before && before.source === text) return before;
  const grown = before !== undefined && before.texts.length > 0 && text.startsWith(before.source);
  const settled = grown ? before.texts.slice(0, -1) : [];
  const open = grown ? (before.texts.at(-1) ?? "") + text.slice(before.source.length) : text;
  return { source: text, texts: [...settled, ...split(open)] };
}

function split(text: string): string[] {
  if (text.length <= PIECE_CHARS) return [detach(text)];
  const texts: string[] = [];
  let piece = "";
  for (const block of blocksOf(text)) {
    // The block is not added to a piece that is full: what is in it may still change, and so would the piece.
    if (piece.length >= PIECE_CHARS && block.type !== "space") {
      texts.push(detach(piece));
      piece = "";
    }
    piece += block.raw;
    while (block.type === "paragraph" && piece.length > MAX_PARAGRAPH_CHARS) {
      const space = Math.max(
        piece.lastIndexOf(" ", MAX_PARAGRAPH_CHARS / 2),
        piece.lastIndexOf("\n", MAX_PARAGRAPH_CHARS / 2),
      );
      const end = space > 0 ? space + 1 : MAX_PARAGRAPH_CHARS / 2;
      texts.push(detach(piece.slice(0, end)));
      piece = piece.slice(end);
    }
  }
  texts.push(detach(piece));
  // A lexer that changed the text on its way (tabs, odd spaces) cannot be cut by lengths; then it stays whole.
  return texts.reduce((sum, part) => sum + part.length, 0) === text.length ? texts : [text];
}

/** The same text as a string of its own. A part of a string holds on to all of it, and of a message that grows that
 * would be each of its states: the more it says, the more copies of it. */
function detach(text: string): string {
  return ` ${text}`.slice(1);
}
