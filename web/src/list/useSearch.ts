import { useEffect, useState } from "react";

import type { SearchHit } from "../protocol";
import { useRequest } from "../store/client";

const DEBOUNCE_MS = 180; // ms after the last key

export type SearchState =
  | { kind: "none" }
  | { kind: "searching" }
  | { kind: "found"; hits: readonly SearchHit[]; isCut: boolean }
  | { kind: "failed"; why: string };

/** Searches for the text a moment after the last key. */
export function useSearch(text: string): SearchState {
  const ask = useRequest();
  const [searched, setSearched] = useState<SearchState>({ kind: "none" });
  const words = text.trim();
  useEffect(() => {
    if (words === "") {
      setSearched({ kind: "none" });
      return;
    }
    let stale = false;
    const update = (state: SearchState) => {
      if (!stale) setSearched(state);
    };
    setSearched((before) => (before.kind === "found" ? before : { kind: "searching" }));
    const timer = setTimeout(() => {
      ask("search", { text: words, limit: 30 }).then(
        ({ hits, is_cut }) => update({ kind: "found", hits, isCut: is_cut }),
        (problem: Error) => update({ kind: "failed", why: problem.message }),
      );
    }, DEBOUNCE_MS);
    return () => {
      stale = true;
      clearTimeout(timer);
    };
  }, [words, ask]);
  return searched;
}
