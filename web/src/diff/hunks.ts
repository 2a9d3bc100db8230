// A diff as hunks, as `react-diff-view` draws them. Pure.

import { diffWordsWithSpace, structuredPatch } from "diff";
import type { ChangeData, HunkData } from "react-diff-view";

import type { DiffItem } from "../protocol";

/** Texts that differ in more lines take seconds to compare; then the whole old text is removed and the new one added. */
const MAX_EDITS = 1000;
/** Unchanged lines that are shown around a change. */
const CONTEXT_LINES = 3;
/** Characters of a pair of lines; longer ones are not compared word by word. */
const MAX_WORD_CHARS = 500;
/** In longer stretches it is a guess which line replaced which, and not worth the time. */
const MAX_WORD_LINES = 40;

export interface Counts {
  readonly added: number;
  readonly removed: number;
}

export interface Diff extends Counts {
  readonly hunks: readonly HunkData[];
}

const diffs = new WeakMap<object, Diff>();

/** Compares the two texts of an item, once for as long as the item is there. */
export function diffOf(item: { readonly old_text: string | null; readonly new_text: string }): Diff {
  const known = diffs.get(item);
  if (known) return known;
  const diff = compare(item.old_text ?? "", item.new_text);
  diffs.set(item, diff);
  return diff;
}

/** The lines that several diffs add and remove, together. */
export function totalCounts(items: readonly DiffItem[]): Counts {
  const counts = items.map(diffOf);
  return {
    added: counts.reduce((sum, { added }) => sum + added, 0),
    removed: counts.reduce((sum, { removed }) => sum + removed, 0),
  };
}

export function compare(before: string, after: string): Diff {
  const options = { context: CONTEXT_LINES, maxEditLength: MAX_EDITS };
  const [old, now] = [withLineEnd(before), withLineEnd(after)];
  const patch = structuredPatch("", "", old, now, "", "", options);
  const hunks = patch ? patch.hunks.map(({ oldStart, newStart, lines }) => hunkOf(oldStart, newStart, lines)) : null;
  const shown = hunks ?? [hunkOf(1, 1, [...prefixed("-", old), ...prefixed("+", now)])];
  return { hunks: shown, added: countOf(shown, "insert"), removed: countOf(shown, "delete") };
}

/** Without it, a last line that gains or loses its line end would count as changed. */
function withLineEnd(text: string): string {
  return text === "" || text.endsWith("\n") ? text : `${text}\n`;
}

function prefixed(sign: string, text: string): string[] {
  const lines = text.split("\n");
  if (lines.at(-1) === "") lines.pop();
  return lines.map((line) => sign + line);
}

function hunkOf(oldStart: number, newStart: number, lines: readonly string[]): HunkData {
  const changes: ChangeData[] = [];
  let oldLine = oldStart;
  let newLine = newStart;
  for (const line of lines) {
    const content = line.slice(1);
    if (line.startsWith("-")) {
      changes.push({ type: "delete", isDelete: true, content, lineNumber: oldLine++ });
    } else if (line.startsWith("+")) {
      changes.push({ type: "insert", isInsert: true, content, lineNumber: newLine++ });
    } else if (line.startsWith(" ")) {
      changes.push({ type: "normal", isNormal: true, content, oldLineNumber: oldLine++, newLineNumber: newLine++ });
    }
  }
  const [oldLines, newLines] = [oldLine - oldStart, newLine - newStart];
  return { content: `@@ -${oldStart} +${newStart} @@`, oldStart, newStart, oldLines, newLines, changes };
}

function countOf(hunks: readonly HunkData[], type: ChangeData["type"]): number {
  return hunks.reduce((sum, hunk) => sum + hunk.changes.filter((change) => change.type === type).length, 0);
}

/** The first `limit` lines of the hunks. */
export function truncateHunks(hunks: readonly HunkData[], limit: number): HunkData[] {
  const shown: HunkData[] = [];
  let rest = limit;
  for (const hunk of hunks) {
    if (rest <= 0) break;
    shown.push(hunk.changes.length <= rest ? hunk : { ...hunk, changes: hunk.changes.slice(0, rest) });
    rest -= hunk.changes.length;
  }
  return shown;
}

/** A part of a line that changed, as `pickRanges` takes it. */
export interface WordRange {
  readonly type: "edit";
  readonly lineNumber: number;
  readonly start: number;
  readonly length: number;
}

/** The words that changed, in lines that replace each other. */
export function changedWords(hunks: readonly HunkData[]): { old: WordRange[]; new: WordRange[] } {
  const ranges: { old: WordRange[]; new: WordRange[] } = { old: [], new: [] };
  for (const { removed, added } of hunks.flatMap((hunk) => replacedLines(hunk.changes))) {
    if (removed.length !== added.length || removed.length > MAX_WORD_LINES) continue;
    removed.forEach((change, index) => {
      const words = wordsOf(change.content, added[index]?.content ?? "");
      ranges.old.push(...rangesOf(words, "removed", lineNumberOf(change)));
      ranges.new.push(...rangesOf(words, "added", lineNumberOf(added[index])));
    });
  }
  return ranges;
}

interface Replaced {
  readonly removed: ChangeData[];
  readonly added: ChangeData[];
}

function replacedLines(changes: readonly ChangeData[]): Replaced[] {
  const blocks: Replaced[] = [];
  let previous: ChangeData["type"] = "normal";
  for (const change of changes) {
    if (change.type === "delete" && previous !== "delete") blocks.push({ removed: [], added: [] });
    if (change.type === "delete") blocks.at(-1)?.removed.push(change);
    // Lines that follow an unchanged one replace nothing.
    if (change.type === "insert" && previous !== "normal") blocks.at(-1)?.added.push(change);
    previous = change.type === "insert" && previous === "normal" ? "normal" : change.type;
  }
  return blocks;
}

type Words = ReturnType<typeof diffWordsWithSpace>;

/** Empty if the lines have little in common: those are easier to read unmarked. */
function wordsOf(old: string, now: string): Words {
  if (old.length + now.length > MAX_WORD_CHARS) return [];
  const words = diffWordsWithSpace(old, now);
  const common = words.reduce((sum, word) => (word.added || word.removed ? sum : sum + word.value.trim().length), 0);
  return common * 3 > Math.max(old.length, now.length) ? words : [];
}

function rangesOf(words: Words, side: "added" | "removed", lineNumber: number): WordRange[] {
  const ranges: WordRange[] = [];
  let start = 0;
  for (const word of words) {
    if (side === "added" ? word.removed : word.added) continue;
    if (word[side]) ranges.push({ type: "edit", lineNumber, start, length: word.value.length });
    start += word.value.length;
  }
  return ranges;
}

function lineNumberOf(change: ChangeData | undefined): number {
  return change !== undefined && "lineNumber" in change ? change.lineNumber : 0;
}
