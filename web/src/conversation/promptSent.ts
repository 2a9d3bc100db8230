/** Tells the conversation that a prompt was sent from this page. Prompts from elsewhere do not scroll it. */
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
