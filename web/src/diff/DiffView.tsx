import { memo, useMemo, useState } from "react";

import type { DiffItem } from "../protocol";
import { diffOf, pairs, type Counts, type DiffLine, type Mark, type Pair } from "./lines";
import "./diff.css";

export type DiffLayout = "unified" | "split";

interface Props {
  item: DiffItem;
  layout?: DiffLayout;
  /** Lines that are shown before someone asks for all. */
  limit?: number;
  /** Whether the texts are whole files, so that the numbers of the lines are the file's. */
  numbered?: boolean;
}

/** What one press shows more of: a screen or two, not ten thousand lines at once. */
const MORE = 400;

export const DiffView = memo(function DiffView({ item, layout = "unified", limit = 400, numbered }: Props) {
  const [most, setMost] = useState(limit);
  const [opened, setOpened] = useState<ReadonlySet<DiffLine>>(new Set());
  const diff = diffOf(item);
  const withNumbers = numbered ?? item.old_text === null;
  const lines = useMemo(
    () => diff.lines.flatMap((line) => (line.kind === "gap" && opened.has(line) ? line.lines : [line])),
    [diff, opened],
  );
  const open = (gap: DiffLine) => setOpened((before) => new Set(before).add(gap));
  if (lines.length === 0) return <p className="diff-empty">Nothing changed in it.</p>;
  const rows = layout === "split" ? pairs(lines) : lines;
  const rest = rows.length - most;
  return (
    <div className={`diff diff-${layout}`} tabIndex={0} role="group" aria-label={`Changes of ${item.path}`}>
      <table>
        <tbody>
          {layout === "split"
            ? pairs(lines)
                .slice(0, most)
                .map((pair, at) => <SplitRow key={at} pair={pair} numbered={withNumbers} onOpen={open} />)
            : lines
                .slice(0, most)
                .map((line, at) => <UnifiedRow key={at} line={line} numbered={withNumbers} onOpen={open} />)}
        </tbody>
      </table>
      {rest > 0 && (
        <button type="button" className="small-button diff-more" onClick={() => setMost((before) => before + MORE)}>
          {rest <= MORE ? `Show all (${rest} more lines)` : `Show ${MORE} more of ${rest} lines`}
        </button>
      )}
    </div>
  );
});

interface RowProps {
  numbered: boolean;
  onOpen: (gap: DiffLine) => void;
}

function UnifiedRow({ line, numbered, onOpen }: RowProps & { line: DiffLine }) {
  if (line.kind === "gap") return <GapRow gap={line} columns={numbered ? 4 : 2} onOpen={onOpen} />;
  return (
    <tr className={line.kind}>
      {numbered && <td className="number">{line.kind === "added" ? "" : line.old}</td>}
      {numbered && <td className="number">{line.kind === "removed" ? "" : line.new}</td>}
      <td className="sign">{SIGNS[line.kind]}</td>
      <td className="line">{textOf(line)}</td>
    </tr>
  );
}

function SplitRow({ pair, numbered, onOpen }: RowProps & { pair: Pair }) {
  if (pair.kind === "gap") return <GapRow gap={pair.gap} columns={numbered ? 6 : 4} onOpen={onOpen} />;
  return (
    <tr>
      <Side
        line={pair.left}
        numbered={numbered}
        number={(line) => (line.kind === "added" || line.kind === "gap" ? null : line.old)}
      />
      <Side
        line={pair.right}
        numbered={numbered}
        number={(line) => (line.kind === "removed" || line.kind === "gap" ? null : line.new)}
      />
    </tr>
  );
}

function Side({
  line,
  numbered,
  number,
}: {
  line: DiffLine | null;
  numbered: boolean;
  number: (line: DiffLine) => number | null;
}) {
  const kind = line && line.kind !== "gap" ? line.kind : "nothing";
  return (
    <>
      {numbered && <td className={`number ${kind}`}>{line && number(line)}</td>}
      <td className={`sign ${kind}`}>{kind === "nothing" ? "" : SIGNS[kind]}</td>
      <td className={`line ${kind}`}>{line && textOf(line)}</td>
    </>
  );
}

function GapRow({
  gap,
  columns,
  onOpen,
}: {
  gap: Extract<DiffLine, { kind: "gap" }>;
  columns: number;
  onOpen: (gap: DiffLine) => void;
}) {
  return (
    <tr className="gap">
      <td colSpan={columns}>
        <button type="button" className="small-button" onClick={() => onOpen(gap)}>
          {gap.lines.length} unchanged lines
        </button>
      </td>
    </tr>
  );
}

const SIGNS = { same: " ", removed: "−", added: "+" } as const;

function textOf(line: DiffLine) {
  if (line.kind === "gap") return null;
  if (line.kind === "same") return line.text;
  return line.marks.map((mark: Mark, at) => (mark.changed ? <mark key={at}>{mark.text}</mark> : mark.text));
}

/** `+12 −3` */
export function CountsView({ added, removed }: Counts) {
  return (
    <span className="counts" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      {added > 0 && <span className="plus">+{added}</span>}
      {removed > 0 && <span className="minus">−{removed}</span>}
    </span>
  );
}
