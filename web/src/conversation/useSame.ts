import { useCallback, useLayoutEffect, useRef } from "react";

/** A function that stays the same and does what the latest one given does: who gets it is not drawn anew for it. */
export function useSame<A extends readonly unknown[], R>(latest: (...given: A) => R): (...given: A) => R {
  const kept = useRef(latest);
  useLayoutEffect(() => {
    kept.current = latest;
  });
  return useCallback((...given: A) => kept.current(...given), []);
}
