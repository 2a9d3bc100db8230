// How long to wait before the next try to reach the server.

const FIRST_DELAY_MS = 250; // ms: a server that was restarted is back within a second
const MAX_DELAY_MS = 15_000; // a person who looks at the page should not wait longer for what works again

/** With jitter, so that a hundred pages do not knock at the same moment. `random` is in [0, 1). */
export function retryDelayMs(attempt: number, random: number): number {
  const ceiling = Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** Math.min(attempt, 16));
  return Math.round(ceiling / 2 + (random * ceiling) / 2);
}
