import { useEffect, useState } from "react";

import { useLink } from "../store/client";

export type Loaded<T> = { kind: "loading" } | { kind: "there"; value: T } | { kind: "failed"; why: string };

/** What the server answers: asked when the view opens, and again when the link comes back. The function puts what a
 * later answer said. */
export function useLoaded<T>(load: () => Promise<T>): [Loaded<T>, (value: T) => void] {
  const [loaded, setLoaded] = useState<Loaded<T>>({ kind: "loading" });
  const open = useLink().kind === "open";
  useEffect(() => {
    if (!open) return;
    let stale = false;
    load().then(
      (value) => {
        if (!stale) setLoaded({ kind: "there", value });
      },
      (problem: Error) => {
        if (!stale) setLoaded({ kind: "failed", why: problem.message });
      },
    );
    return () => {
      stale = true;
    };
    // `load` is written where it is used and new with each render, though it asks for the same.
  }, [open]);
  return [loaded, (value) => setLoaded({ kind: "there", value })];
}
