import { useMemo } from "react";
import {
  type ChangeData,
  Decoration,
  Diff,
  Hunk,
  type HunkData,
  pickRanges,
  tokenize,
  useSourceExpansion,
} from "react-diff-view";

import type { DiffItem } from "../protocol";
import { plural } from "../ui/format";
import { changedWords, diffOf, truncateHunks } from "./hunks";
import type { DiffLayout } from "./LayoutSwitch";

interface Props {
  item: DiffItem;
  layout: DiffLayout;
  /** Lines that are shown. */
  limit: number;
  /** Lines that one press shows more of. */
  moreLines: number;
  numbered: boolean;
  onMore: () => void;
}

/** The hunks of a diff, with the unchanged lines between them folded. */
export default function DiffTable({ item, layout, limit, moreLines, numbered, onMore }: Props) {
  const { hunks } = diffOf(item);
  const [expanded, expand] = useSourceExpansion(hunks as HunkData[], item.old_text ?? "");
  const shown = useMemo(() => truncateHunks(expanded, limit), [expanded, limit]);
  const tokens = useMemo(() => {
    const words = changedWords(shown);
    return tokenize(shown, { enhancers: [pickRanges(words.old, words.new)] });
  }, [shown]);
  const oldLines = useMemo(() => countLines(item.old_text ?? ""), [item]);
  const rest = expanded.reduce((sum, hunk) => sum + hunk.changes.length, 0) - limit;
  return (
    <>
      <Diff
        diffType="modify"
        viewType={layout}
        hunks={shown}
        tokens={tokens}
        gutterType={numbered ? "default" : "none"}
        generateLineClassName={lineClassName}
      >
        {(drawn) =>
          [...drawn, null].flatMap((hunk, index) => {
            const [from, to] = gapBefore(drawn[index - 1] ?? null, hunk, oldLines);
            const gap = to > from && (hunk !== null || rest <= 0) && (
              <Gap key={`gap ${from}`} count={to - from} onExpand={() => expand(from, to)} />
            );
            return [gap, hunk !== null && <Hunk key={hunk.content} hunk={hunk} />].filter((part) => part !== false);
          })
        }
      </Diff>
      {rest > 0 && (
        <button type="button" className="small-button diff-more" onClick={onMore}>
          {rest <= moreLines ? `Show all (${rest} more lines)` : `Show ${moreLines} more of ${rest} lines`}
        </button>
      )}
    </>
  );
}

/** The unchanged lines of the old text before a hunk, or after the last one: from, and up to but without. */
function gapBefore(previous: HunkData | null, next: HunkData | null, oldLines: number): [from: number, to: number] {
  const from = previous === null ? 1 : previous.oldStart + previous.oldLines;
  return [from, next?.oldStart ?? oldLines + 1];
}

function countLines(text: string): number {
  return text === "" ? 0 : text.replace(/\n$/, "").split("\n").length;
}

/** Unchanged lines, to be unfolded. */
function Gap({ count, onExpand }: { count: number; onExpand: () => void }) {
  return (
    <Decoration>
      <button type="button" className="small-button diff-gap" onClick={onExpand}>
        {plural(count, "unchanged line")}
      </button>
    </Decoration>
  );
}

/** The library passes null for the side of a row that has no line, whatever its types say. */
type LineChanges = readonly (ChangeData | null)[];

function lineClassName({ changes, defaultGenerate }: { changes: LineChanges; defaultGenerate: () => string }): string {
  const kinds = changes.map((change) => change && { normal: null, insert: "added", delete: "removed" }[change.type]);
  return [defaultGenerate(), ...new Set(kinds)].filter(Boolean).join(" ");
}
