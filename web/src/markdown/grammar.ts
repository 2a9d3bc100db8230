// The Markdown that is understood here: GitHub's, and math between dollars or TeX's own brackets.
//
// An agent's text may be made to take long: nested a thousand times, or full of marks that never close. So the work is
// bounded: what is nested too deeply or too long to be searched for marks stays as it is written, and a text that needs
// too much work for its length is not parsed at all.

import { Lexer, Marked, type TokenizerExtension, type Token, type Tokens, type TokensList } from "marked";

export interface MathToken extends Tokens.Generic {
  type: "math";
  raw: string;
  tex: string;
  display: boolean;
}

/** A part of the text that is shown as it is written. */
export interface AsWrittenToken extends Tokens.Generic {
  type: "as_written";
  raw: string;
  text: string;
}

/** Levels of quotes and lists within each other. */
const MAX_BLOCK_DEPTH = 16;
/** Levels of emphasis and links within each other. */
const MAX_INLINE_DEPTH = 16;
/** Characters that are searched for marks together: the work may grow with their square. */
export const MAX_INLINE_CHARS = 6000;
/** The sum of these squares in one text, some tenths of a second. */
const MAX_INLINE_WORK = 100_000_000;
/** Characters of a formula. */
const MAX_MATH_CHARS = 4000;
/** Marks within a formula that look like its end, but do not end their line. */
const MAX_CLOSING_MARKS = 20;
/** A row is filled up to the width of the header: a short text can stand for millions of cells. */
const MAX_TABLE_CELLS = 20_000;

/** A dollar starts math only if no space follows and no digit comes after the closing one: `$5 and $6` are prices. */
const INLINE_DOLLARS = /^\$(?![\s$])((?:\\.|[^\\$\n])*?[^\s\\$])\$(?!\d)/;
const BLOCK_OPENING = /^ {0,3}(\$\$|\\\[)/;
const LINE_END = /[ \t]*(?:\n+|$)/y;

const inlineMath: TokenizerExtension = {
  name: "math",
  level: "inline",
  start: (source) => {
    const at = source.search(/\$|\\\(/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (source) => {
    if (source.startsWith("\\(")) return mathToken(source, 2, "\\)", false);
    const found = INLINE_DOLLARS.exec(source);
    return found ? { type: "math", raw: found[0], tex: (found[1] ?? "").trim(), display: false } : undefined;
  },
};

const blockMath: TokenizerExtension = {
  name: "math_block",
  level: "block",
  start: (source) => {
    const at = source.slice(0, MAX_INLINE_CHARS).search(/(?:^|\n) {0,3}(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (source) => {
    const opening = BLOCK_OPENING.exec(source);
    if (!opening) return undefined;
    return mathToken(source, opening[0].length, opening[1] === "$$" ? "$$" : "\\]", true);
  },
};

/** The formula between `start` and its closing mark, which ends its line if the formula is a block. */
function mathToken(source: string, start: number, close: string, display: boolean): MathToken | undefined {
  const searched = source.slice(0, start + MAX_MATH_CHARS + close.length);
  let at = searched.indexOf(close, start);
  for (let tries = 0; at >= 0 && tries < MAX_CLOSING_MARKS; tries++) {
    LINE_END.lastIndex = at + close.length;
    if (!display || LINE_END.test(source)) {
      const tex = source.slice(start, at).trim();
      const end = display ? LINE_END.lastIndex : at + close.length;
      if (tex !== "") return { type: "math", raw: source.slice(0, end), tex, display };
    }
    at = searched.indexOf(close, at + 1);
  }
  return undefined;
}

const marked = new Marked(
  { gfm: true, breaks: false, async: false },
  {
    extensions: [inlineMath, blockMath],
    // `false` leaves it to the library; without a token the text becomes a paragraph.
    tokenizer: { table: (source) => (isHugeTable(source) ? undefined : false) },
  },
);

/** True if a table of too many cells would begin here. */
function isHugeTable(source: string): boolean {
  const header = /^([^\n]*)\n[ \t|:-]+(?:\n|$)/.exec(source)?.[1] ?? "";
  const columns = header.split("|").length;
  if (columns < 2) return false;
  const end = source.search(/\n[ \t]*\n/);
  const rows = (end < 0 ? source : source.slice(0, end)).split("\n").length;
  return columns * rows > MAX_TABLE_CELLS;
}

/** Raised where a text needs too much work for its length. */
class TooMuchWork extends Error {}

/** The library's lexer, which calls itself for what is inside of quotes, lists and emphasis. */
class BoundedLexer extends Lexer {
  private blockDepth = 0;
  private inlineDepth = 0;
  private blockWork: number;
  private inlineWork = MAX_INLINE_WORK;

  constructor(length: number) {
    super(marked.defaults);
    // Each level reads its text once; twice that leaves room for lines that continue a quote, which are read again.
    this.blockWork = 2 * MAX_BLOCK_DEPTH * (length + 1000);
  }

  override blockTokens(source: string, tokens?: Token[], isClipped?: boolean): Token[];
  override blockTokens(source: string, tokens?: TokensList, isClipped?: boolean): TokensList;
  override blockTokens(source: string, tokens: Token[] = [], isClipped = false): Token[] {
    this.blockWork -= source.length + 1;
    if (this.blockWork < 0) throw new TooMuchWork();
    if (this.blockDepth >= MAX_BLOCK_DEPTH) {
      this.state.top = true;
      tokens.push(asWritten(source));
      return tokens;
    }
    this.blockDepth++;
    try {
      return super.blockTokens(source, tokens, isClipped);
    } finally {
      this.blockDepth--;
    }
  }

  override inlineTokens(source: string, tokens: Token[] = []): Token[] {
    this.inlineWork -= source.length ** 2;
    if (this.inlineDepth >= MAX_INLINE_DEPTH || source.length > MAX_INLINE_CHARS || this.inlineWork < 0) {
      tokens.push({ type: "text", raw: source, text: source, escaped: false });
      return tokens;
    }
    this.inlineDepth++;
    try {
      return super.inlineTokens(source, tokens);
    } finally {
      this.inlineDepth--;
    }
  }
}

export function asWritten(text: string): AsWrittenToken {
  return { type: "as_written", raw: text, text };
}

/** Normalizes line ends as the lexer does, so that the lengths of its tokens add up to the length of the text. */
export function normalizeNewlines(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}

/** The block tokens of a text, without their inline tokens. */
export function blocksOf(text: string): Token[] {
  return orAsWritten(text, () => new BoundedLexer(text.length).blockTokens(text));
}

/** The blocks of a text with all that is in them. */
export function parse(text: string): Token[] {
  const source = normalizeNewlines(text);
  return orAsWritten(source, () => new BoundedLexer(source.length).lex(source));
}

/** Shows a text that the lexer cannot read as it is written, whatever the reason: it must not break the page. */
function orAsWritten(text: string, read: () => Token[]): Token[] {
  try {
    return read();
  } catch {
    return [asWritten(text)];
  }
}
