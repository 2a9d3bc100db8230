import { useEffect, useState } from "react";

/** The current time in seconds, updated every minute: enough for "5 min ago". */
export function useMinutes(): number {
  const [now, setNow] = useState(() => Date.now() / 1000);
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now() / 1000), 60_000);
    return () => clearInterval(timer);
  }, []);
  return now;
}
