// The Markdown that is understood here: GitHub's, and math between dollars or TeX's own brackets.

import { Lexer, Marked, type TokenizerExtension, type Token, type Tokens } from "marked";

export interface MathToken extends Tokens.Generic {
  type: "math";
  raw: string;
  tex: string;
  display: boolean;
}

/** A dollar starts math only if no space follows and no digit comes after the closing one: `$5 and $6` are prices. */
const INLINE_DOLLARS = /^\$(?![\s$])((?:\\.|[^\\$\n])*?[^\s\\$])\$(?!\d)/;
const INLINE_BRACKETS = /^\\\(([\s\S]+?)\\\)/;
const BLOCK_DOLLARS = /^ {0,3}\$\$\s*\n?([\s\S]+?)\n?\s*\$\$[ \t]*(?:\n+|$)/;
const BLOCK_BRACKETS = /^ {0,3}\\\[\s*\n?([\s\S]+?)\n?\s*\\\][ \t]*(?:\n+|$)/;

function mathToken(found: RegExpExecArray | null, display: boolean): MathToken | undefined {
  if (!found) return undefined;
  return { type: "math", raw: found[0], tex: (found[1] ?? "").trim(), display };
}

const inlineMath: TokenizerExtension = {
  name: "math",
  level: "inline",
  start: (source) => {
    const at = source.search(/\$|\\\(/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (source) => mathToken(INLINE_DOLLARS.exec(source) ?? INLINE_BRACKETS.exec(source), false),
};

const blockMath: TokenizerExtension = {
  name: "math_block",
  level: "block",
  start: (source) => {
    const at = source.search(/(?:^|\n) {0,3}(?:\$\$|\\\[)/);
    return at < 0 ? undefined : at;
  },
  tokenizer: (source) => mathToken(BLOCK_DOLLARS.exec(source) ?? BLOCK_BRACKETS.exec(source), true),
};

const marked = new Marked({ gfm: true, breaks: false, async: false }, { extensions: [inlineMath, blockMath] });

/** Normalizes line ends as the lexer does, so that the lengths of its tokens add up to the length of the text. */
export function normalizeNewlines(text: string): string {
  return text.includes("\r") ? text.replace(/\r\n?/g, "\n") : text;
}

/** The block tokens of a text, without their inline tokens. */
export function blocksOf(text: string): Token[] {
  return new Lexer(marked.defaults).blockTokens(text);
}

/** The blocks of a text with all that is in them. */
export function parse(text: string): Token[] {
  return new Lexer(marked.defaults).lex(normalizeNewlines(text));
}
