import { useEffect } from "react";

import { useStore } from "./store/client";

/** Shows the number of pending requests in the title of the browser's tab. */
export function useTitle(): void {
  const waiting = useStore((known) => known.waiting?.length ?? 0);
  useEffect(() => {
    document.title = waiting > 0 ? `(${waiting}) Dragoman` : "Dragoman";
  }, [waiting]);
}
