// A diff as lines. Pure.

import { diffLines, diffWordsWithSpace } from "diff";

/** Texts that differ in more lines take long to compare (4,000: seconds); then all of it goes and comes. */
const MOST_EDITS = 1000;
/** Unchanged lines that are shown around a change. */
const CONTEXT = 3;
/** Longer lines are not compared word by word. */
const WORDS_WITHIN = 500;
/** In longer stretches, which line took the place of which is a guess, and not worth the time. */
const WORDS_IN_LINES = 40;

export interface Mark {
  readonly text: string;
  readonly changed: boolean;
}

export type DiffLine =
  | { readonly kind: "same"; readonly old: number; readonly new: number; readonly text: string }
  | { readonly kind: "removed"; readonly old: number; readonly marks: readonly Mark[] }
  | { readonly kind: "added"; readonly new: number; readonly marks: readonly Mark[] }
  | { readonly kind: "gap"; readonly lines: readonly DiffLine[] };

export interface Counts {
  readonly added: number;
  readonly removed: number;
}

export interface Diff extends Counts {
  readonly lines: readonly DiffLine[];
}

/** The two sides of one line of a split view; null where there is nothing on that side. */
export type Pair =
  | { readonly kind: "pair"; readonly left: DiffLine | null; readonly right: DiffLine | null }
  | { readonly kind: "gap"; readonly gap: Extract<DiffLine, { kind: "gap" }> };

const known = new WeakMap<object, Diff>();

/** The diff of an item, worked out once for as long as the item is there. */
export function diffOf(item: { readonly old_text: string | null; readonly new_text: string }): Diff {
  const before = known.get(item);
  if (before) return before;
  const made = compare(item.old_text ?? "", item.new_text);
  known.set(item, made);
  return made;
}

export function compare(before: string, after: string): Diff {
  const parts = diffLines(ended(before), ended(after), { maxEditLength: MOST_EDITS }) ?? [
    { value: ended(before), added: false, removed: true },
    { value: ended(after), added: true, removed: false },
  ];
  const lines: DiffLine[] = [];
  const counts = { added: 0, removed: 0 };
  let oldLine = 1;
  let newLine = 1;
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at];
    const next = parts[at + 1];
    if (!part) continue;
    const texts = linesOf(part.value);
    if (part.removed) {
      const added = next?.added ? linesOf(next.value) : [];
      const [left, right] = marked(texts, added);
      for (const marks of left) lines.push({ kind: "removed", old: oldLine++, marks });
      for (const marks of right) lines.push({ kind: "added", new: newLine++, marks });
      counts.removed += texts.length;
      counts.added += added.length;
      if (next?.added) at++;
    } else if (part.added) {
      for (const text of texts) lines.push({ kind: "added", new: newLine++, marks: whole(text) });
      counts.added += texts.length;
    } else {
      for (const text of texts) lines.push({ kind: "same", old: oldLine++, new: newLine++, text });
    }
  }
  return { ...counts, lines: withGaps(lines) };
}

/** Without this a last line that gains or loses its line end would count as changed. */
function ended(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function linesOf(text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines;
}

function whole(text: string): readonly Mark[] {
  return [{ text, changed: false }];
}

/** Lines that take each other's place are compared word by word. */
function marked(removed: readonly string[], added: readonly string[]): [(readonly Mark[])[], (readonly Mark[])[]] {
  if (removed.length !== added.length || removed.length > WORDS_IN_LINES) return [removed.map(whole), added.map(whole)];
  const left: (readonly Mark[])[] = [];
  const right: (readonly Mark[])[] = [];
  removed.forEach((old, index) => {
    const now = added[index] ?? "";
    const words = old.length + now.length <= WORDS_WITHIN ? diffWordsWithSpace(old, now) : [];
    const common = words.reduce((sum, word) => (word.added || word.removed ? sum : sum + word.value.trim().length), 0);
    // Lines with little in common are easier to read unmarked.
    const similar = common * 3 > Math.max(old.length, now.length);
    left.push(similar ? words.filter((word) => !word.added).map(mark) : whole(old));
    right.push(similar ? words.filter((word) => !word.removed).map(mark) : whole(now));
  });
  return [left, right];
}

function mark(word: { value: string; added?: boolean; removed?: boolean }): Mark {
  return { text: word.value, changed: Boolean(word.added || word.removed) };
}

/** Long stretches without a change become gaps, which can be opened. */
function withGaps(lines: readonly DiffLine[]): DiffLine[] {
  const result: DiffLine[] = [];
  let start = 0;
  while (start < lines.length) {
    if (lines[start]?.kind !== "same") {
      result.push(lines[start++] as DiffLine);
      continue;
    }
    let end = start;
    while (lines[end]?.kind === "same") end++;
    const from = start === 0 ? 0 : start + CONTEXT;
    const to = end === lines.length ? end : end - CONTEXT;
    const changes = start > 0 || end < lines.length;
    // A gap of one or two lines would take as much room as the lines themselves.
    if (changes && to - from > 2) {
      result.push(...lines.slice(start, from), { kind: "gap", lines: lines.slice(from, to) }, ...lines.slice(to, end));
    } else {
      result.push(...lines.slice(start, end));
    }
    start = end;
  }
  return result;
}

export function pairs(lines: readonly DiffLine[]): Pair[] {
  const result: Pair[] = [];
  let at = 0;
  while (at < lines.length) {
    const line = lines[at] as DiffLine;
    if (line.kind === "gap") {
      result.push({ kind: "gap", gap: line });
      at++;
    } else if (line.kind === "same") {
      result.push({ kind: "pair", left: line, right: line });
      at++;
    } else {
      let middle = at;
      while (lines[middle]?.kind === "removed") middle++;
      let end = middle;
      while (lines[end]?.kind === "added") end++;
      for (let step = 0; step < Math.max(middle - at, end - middle); step++) {
        const left = at + step < middle ? (lines[at + step] ?? null) : null;
        const right = middle + step < end ? (lines[middle + step] ?? null) : null;
        result.push({ kind: "pair", left, right });
      }
      at = end;
    }
  }
  return result;
}
