// Splits a long text between blocks. Each piece is rendered on its own: a message of any length costs only what is in
// view, and appended text changes the last piece alone.

import type { Token } from "marked";

import { blocksOf, MAX_INLINE_CHARS, normalizeNewlines } from "./grammar";

/** About half a screen: small enough to render in one frame, large enough to keep their number low. */
const PIECE_CHARS = 1500;
/** A longer paragraph is split between words, because rendering it would take seconds. */
const MAX_PARAGRAPH_CHARS = MAX_INLINE_CHARS;
/** Read for blocks at once: the work may grow with the square of it. */
const WINDOW_CHARS = 32_000;
/** A longer block is split between words, whatever it is. */
const MAX_BLOCK_CHARS = 8 * WINDOW_CHARS;

export interface Pieces {
  readonly source: string;
  /** Together they are the source. All but the last never change again. */
  readonly texts: readonly string[];
}

/** Splits a text. With the pieces of its earlier state, only the last of them is split again. */
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
  for (const block of blocksInWindows(text)) {
    // A full piece is closed before this block, whose content may still change.
    if (piece.length >= PIECE_CHARS && block.type !== "space") {
      texts.push(detach(piece));
      piece = "";
    }
    piece += block.raw;
    while ((block.type === "paragraph" || block.type === "as_written") && piece.length > MAX_PARAGRAPH_CHARS) {
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

/** The blocks of a text, read from one window after the other. */
function* blocksInWindows(text: string): Generator<Pick<Token, "type" | "raw">> {
  let start = 0;
  let size = WINDOW_CHARS;
  while (start < text.length) {
    const window = text.slice(start, start + size);
    const blocks = blocksOf(window);
    if (start + size < text.length) {
      // The last block may go on after the window: the next one begins with it.
      while (blocks.at(-1)?.type === "space") blocks.pop();
      blocks.pop();
      if (blocks.length === 0 && size < MAX_BLOCK_CHARS) {
        size *= 2;
        continue;
      }
      if (blocks.length === 0) blocks.push({ type: "as_written", raw: window });
    }
    for (const block of blocks) {
      start += block.raw.length;
      yield block;
    }
    size = WINDOW_CHARS;
  }
}

/** The same text as a string of its own. A part of a string holds on to all of it, and of a message that grows that
 * would be each of its states: the more it says, the more copies of it. */
function detach(text: string): string {
  return ` ${text}`.slice(1);
}
