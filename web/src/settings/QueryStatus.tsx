import type { QueryState } from "./useQuery";

/** In place of what is not there yet, or could not be had. */
export function QueryStatus({ loaded }: { loaded: Exclude<QueryState<unknown>, { kind: "loaded" }> }) {
  if (loaded.kind === "loading") return <p className="hint">Loading…</p>;
  return (
    <p className="bad" role="alert">
      {loaded.why}
    </p>
  );
}
