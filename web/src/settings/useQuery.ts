import { useCallback, useEffect, useState } from "react";

import { useConnection } from "../store/client";
import { useEvent } from "../ui/useEvent";

export type QueryState<T> = { kind: "loading" } | { kind: "loaded"; value: T } | { kind: "failed"; why: string };

/** Asks the server when the view opens, and again when the connection comes back. The function replaces the answer by
 * a later one. */
export function useQuery<T>(query: () => Promise<T>): [QueryState<T>, (value: T) => void] {
  const load = useEvent(query);
  const [loaded, setLoaded] = useState<QueryState<T>>({ kind: "loading" });
  const open = useConnection().kind === "open";
  useEffect(() => {
    if (!open) return;
    let stale = false;
    load().then(
      (value) => {
        if (!stale) setLoaded({ kind: "loaded", value });
      },
      (error: Error) => {
        if (!stale) setLoaded({ kind: "failed", why: error.message });
      },
    );
    return () => {
      stale = true;
    };
  }, [open, load]);
  const setValue = useCallback((value: T) => setLoaded({ kind: "loaded", value }), []);
  return [loaded, setValue];
}
