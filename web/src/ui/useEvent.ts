import { useCallback, useLayoutEffect, useRef } from "react";

/** A function that stays the same and does what the latest one given does: who gets it is not drawn anew for it. */
export function useEvent<A extends readonly unknown[], R>(handler: (...args: A) => R): (...args: A) => R {
  const latestHandler = useRef(handler);
  useLayoutEffect(() => {
    latestHandler.current = handler;
  });
  return useCallback((...args: A) => latestHandler.current(...args), []);
}
