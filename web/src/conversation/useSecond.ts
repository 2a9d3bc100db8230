import { useEffect, useState } from "react";

/** The time in seconds, told anew each second while it is wanted. */
export function useSeconds(wanted: boolean): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    if (!wanted) return;
    setNow(Date.now() / 1000);
    const timer = setInterval(() => setNow(Date.now() / 1000), 1000);
    return () => clearInterval(timer);
  }, [wanted]);
  return now;
}
