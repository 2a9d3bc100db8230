/** That something was sent from here, for those who show what comes of it. What others send moves nobody. */
const told = new Set<(sessionId: string) => void>();

export function tellSent(sessionId: string): void {
  for (const one of told) one(sessionId);
}

export function onSent(one: (sessionId: string) => void): () => void {
  told.add(one);
  return () => {
    told.delete(one);
  };
}
