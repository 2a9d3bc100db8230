import { useEffect } from "react";

import { useStore } from "./store/client";

/** The browser's tab tells how much waits, also for who is elsewhere. */
export function useTitle(): void {
  const waiting = useStore((known) => known.waiting?.length ?? 0);
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) Dragoman` : "Dragoman";
  }, [waiting]);
}
