import { useCallback, useLayoutEffect, useRef } from "react";

/** Returns a function with a stable identity that calls the latest `handler`: components that receive it do not render
 * again. */
export function useEvent<A extends readonly unknown[], R>(handler: (...args: A) => R): (...args: A) => R {
  const latestHandler = useRef(handler);
  useLayoutEffect(() => {
    latestHandler.current = handler;
  });
  return useCallback((...args: A) => latestHandler.current(...args), []);
}
