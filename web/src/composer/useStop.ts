// Escape, pressed twice, stops the run.

import { useEffect, useState } from "react";

import { useSame } from "../conversation/useSame";

/** The second press has to come within this; one alone may be meant for a menu. */
const TWICE = 1500;

/** True after the first press, until the second or for a while. */
export function useStop(running: boolean, stop: () => void): boolean {
  const [armed, setArmed] = useState(false);
  const press = useSame((event: KeyboardEvent) => {
    if (event.key !== "Escape" || event.defaultPrevented || event.repeat || document.querySelector("dialog[open]"))
      return;
    if (armed) stop();
    setArmed(!armed);
  });
  useEffect(() => {
    if (!running) return;
    document.addEventListener("keydown", press);
    return () => {
      document.removeEventListener("keydown", press);
      setArmed(false);
    };
  }, [running, press]);
  useEffect(() => {
    if (!armed) return;
    const timer = setTimeout(() => setArmed(false), TWICE);
    return () => clearTimeout(timer);
  }, [armed]);
  return armed;
}
