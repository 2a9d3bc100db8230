/** That something was sent from here, for those who show what comes of it. What others send moves nobody. */
const listeners = new Set<(sessionId: string) => void>();

export function notifySent(sessionId: string): void {
  for (const one of listeners) one(sessionId);
}

export function onSent(one: (sessionId: string) => void): () => void {
  listeners.add(one);
  return () => {
    listeners.delete(one);
  };
}
