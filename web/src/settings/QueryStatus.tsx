import type { QueryState } from "./useQuery";

/** Shown while a query is loading or after it failed. */
export function QueryStatus({ loaded }: { loaded: Exclude<QueryState<unknown>, { kind: "loaded" }> }) {
  if (loaded.kind === "loading") return <p className="hint">Loading…</p>;
  return (
    <p className="bad" role="alert">
      {loaded.why}
    </p>
  );
}
