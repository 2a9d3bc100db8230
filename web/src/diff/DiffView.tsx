import { Suspense, memo, useState } from "react";

import type { DiffItem } from "../protocol";
import { lazyComponent } from "../ui/lazyComponent";
import { type Counts, diffOf } from "./hunks";
import type { DiffLayout } from "./LayoutSwitch";
import "./diff.css";

const DiffTable = lazyComponent(async () => (await import("./DiffTable")).default);

interface Props {
  item: DiffItem;
  layout?: DiffLayout;
  /** Lines that are shown before someone asks for more. */
  limit?: number;
  /** True if the texts are whole files, so that line numbers are those of the file. */
  numbered?: boolean;
}

/** One press shows this many lines more: a screen or two, not ten thousand at once. */
const MORE_LINES = 400;

export const DiffView = memo(function DiffView({ item, layout = "unified", limit = 400, numbered }: Props) {
  const [shownLines, setShownLines] = useState(limit);
  if (diffOf(item).hunks.length === 0) return <p className="diff-empty">No changes.</p>;
  return (
    <div className="diff-box" tabIndex={0} role="group" aria-label={`Changes in ${item.path}`}>
      <Suspense fallback={<p className="diff-empty">Loading…</p>}>
        <DiffTable
          item={item}
          layout={layout}
          limit={shownLines}
          moreLines={MORE_LINES}
          numbered={numbered ?? item.old_text === null}
          onMore={() => setShownLines((lines) => lines + MORE_LINES)}
        />
      </Suspense>
    </div>
  );
});

/** `+12 −3` */
export function CountsView({ added, removed }: Counts) {
  return (
    <span className="counts" role="img" aria-label={`${added} lines added, ${removed} removed`}>
      {added > 0 && <span className="plus">+{added}</span>}
      {removed > 0 && <span className="minus">−{removed}</span>}
    </span>
  );
}
