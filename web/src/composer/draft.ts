// Drafts: unsent prompts, stored per session in this browser.

export interface Draft {
  readonly text: string;
  /** Paths that were taken from the list of files; those that are still in the text go with it. */
  readonly mentions: readonly string[];
}

export const NO_DRAFT: Draft = { text: "", mentions: [] };

const storageKey = (sessionId: string) => `dragoman.draft.${sessionId}`;

export function readDraft(sessionId: string): Draft {
  try {
    const stored: unknown = JSON.parse(localStorage.getItem(storageKey(sessionId)) ?? "null");
    return isDraft(stored) ? stored : NO_DRAFT;
  } catch {
    return NO_DRAFT;
  }
}

export function saveDraft(sessionId: string, draft: Draft): void {
  try {
    if (draft.text === "") localStorage.removeItem(storageKey(sessionId));
    else localStorage.setItem(storageKey(sessionId), JSON.stringify(draft));
  } catch {
    // A full or forbidden storage costs the draft at the next reload, and nothing now.
  }
}

function isDraft(value: unknown): value is Draft {
  if (typeof value !== "object" || value === null) return false;
  const { text, mentions } = value as Record<string, unknown>;
  return typeof text === "string" && Array.isArray(mentions) && mentions.every((path) => typeof path === "string");
}

/** The files that the text names, each once. */
export function mentionedPaths(draft: Draft): readonly string[] {
  return [...new Set(draft.mentions)].filter((path) => draft.text.includes(`@${path}`));
}
