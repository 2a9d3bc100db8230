import { useState, type ReactNode } from "react";

/** Entries that are shown at first: a list may have thousands. */
const MAX_SHOWN = 100;

/** The first of many, and a button for the others. */
export function TruncatedList<T>({
  all,
  what,
  children,
}: {
  all: readonly T[];
  what: string;
  children: (one: T) => ReactNode;
}) {
  const [whole, setWhole] = useState(false);
  const shown = whole ? all : all.slice(0, MAX_SHOWN);
  return (
    <>
      {shown.map(children)}
      {shown.length < all.length && (
        <li>
          <button type="button" className="small-button" onClick={() => setWhole(true)}>
            Show all {all.length} {what}
          </button>
        </li>
      )}
    </>
  );
}
