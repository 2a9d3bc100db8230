import { useEffect, useState } from "react";

/** The current time in seconds, updated every second while `wanted`. */
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
