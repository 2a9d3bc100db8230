// The delay before the next attempt to connect.

const FIRST_DELAY_MS = 250; // ms: a server that was restarted is back within a second
const MAX_DELAY_MS = 15_000; // nobody should wait longer than this for a server that is back

/** Exponential with jitter, so that many pages do not reconnect at the same moment. `random` is in [0, 1). */
export function retryDelayMs(attempt: number, random: number): number {
  const ceiling = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 16));
  return Math.round(ceiling / 2 + (random * ceiling) / 2);
}
