import { useEffect, useState } from "react";

import type { Hit } from "../protocol";
import { useAsk } from "../store/client";

const PAUSE = 180; // ms after the last key

export type Searched =
  { kind: "none" } | { kind: "searching" } | { kind: "found"; hits: readonly Hit[] } | { kind: "failed"; why: string };

/** What the words are found in, a moment after the last of them was typed. */
export function useSearch(text: string): Searched {
  const ask = useAsk();
  const [searched, setSearched] = useState<Searched>({ kind: "none" });
  const words = text.trim();
  useEffect(() => {
    if (words === "") {
      setSearched({ kind: "none" });
      return;
    }
    let stale = false;
    const tell = (told: Searched) => {
      if (!stale) setSearched(told);
    };
    setSearched((before) => (before.kind === "found" ? before : { kind: "searching" }));
    const timer = setTimeout(() => {
      ask("search", { text: words, limit: 30 }).then(
        ({ hits }) => tell({ kind: "found", hits }),
        (problem: Error) => tell({ kind: "failed", why: problem.message }),
      );
    }, PAUSE);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
    // `ask` is the same for as long as the page is open.
  }, [words]);
  return searched;
}
