// The last line of a text that is still being written, with its open marks closed: nothing flickers as they close.

/** A link with an incomplete address is shown by its label alone. */
const OPEN_LINK = /!?\[([^\]\n]*)\](?:\([^)\n]*)?$/;
const OPEN_LABEL = /!?\[([^\]\n]*)$/;

/** A longer paragraph stays as it is: looking for its open marks takes the square of its length. */
const MAX_PARAGRAPH_CHARS = 6000;

/** Mends the last paragraph; within a fence nothing is a mark. */
export function closeOpenMarks(text: string): string {
  if (inFence(text)) return text;
  const start = text.lastIndexOf("\n\n") + 1;
  if (text.length - start > MAX_PARAGRAPH_CHARS) return text;
  const head = text.slice(0, start);
  let last = text.slice(start);
  if (count(last, /`/g) % 2 === 1) return `${head + last}\``;
  last = last.replace(OPEN_LINK, (whole, label: string) => (whole.endsWith("]") ? whole : label));
  last = last.replace(OPEN_LABEL, "$1");
  for (const mark of ["**", "~~"]) {
    if (last.split(mark).length % 2 === 0)
      last = last.endsWith(mark) ? last.slice(0, -mark.length) : last.trimEnd() + mark;
  }
  return head + last;
}

function inFence(text: string): boolean {
  let open: string | null = null;
  for (const line of text.split("\n")) {
    const fence = /^\s{0,3}(`{3,}|~{3,})/.exec(line)?.[1];
    if (!fence) continue;
    if (open === null) open = fence;
    else if (fence.startsWith(open)) open = null;
  }
  return open !== null;
}

function count(text: string, what: RegExp): number {
  return text.match(what)?.length ?? 0;
}
