import type { Loaded } from "./useLoaded";

/** In place of what is not there yet, or could not be had. */
export function Pending({ loaded }: { loaded: Exclude<Loaded<unknown>, { kind: "there" }> }) {
  if (loaded.kind === "loading") return <p className="hint">Loading…</p>;
  return (
    <p className="bad" role="alert">
      {loaded.why}
    </p>
  );
}
