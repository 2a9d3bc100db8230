// Number keys that answer.

import { useEffect } from "react";

import { useEvent } from "../ui/useEvent";

/** A key that is pressed just as a card appears was meant for something else. */
const SETTLE_MS = 600;

/** Calls `answer` with 1 to `count`. Not at once, and while someone types only with Alt. */
export function useNumberKeys(active: boolean, count: number, answer: (number: number) => void): void {
  const same = useEvent(answer);
  useEffect(() => {
    if (!active) return;
    const since = performance.now();
    const press = (event: KeyboardEvent) => {
      const number = numberOf(event, count);
      if (number === null || performance.now() - since < SETTLE_MS) return;
      event.preventDefault();
      same(number);
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, [active, count, same]);
}

function numberOf(event: KeyboardEvent, count: number): number | null {
  if (event.ctrlKey || event.metaKey || event.repeat || event.defaultPrevented) return null;
  // While the user types, a digit is text; with Alt it answers the card.
  if (isTyping(event.target) !== event.altKey) return null;
  const number = Number(/^(?:Digit)?([1-9])$/.exec(event.altKey ? event.code : event.key)?.[1] ?? 0);
  return number >= 1 && number <= count ? number : null;
}

export function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.isContentEditable || ["INPUT", "TEXTAREA", "SELECT"].includes(target.tagName);
}
