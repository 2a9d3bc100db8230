// What the panel beside a conversation shows. Its tab is remembered for each session, its width for the browser.

import { useCallback, useMemo, useState } from "react";

export const TABS = ["changes", "plan", "terminals", "file", "details"] as const;
export type Tab = (typeof TABS)[number];

export interface OpenedFile {
  readonly path: string;
  readonly line: number | null;
}

interface Shown {
  readonly tab: Tab | null;
  /** Null: nobody chose, and it is open when there is something in it. */
  readonly open: boolean | null;
  readonly file: OpenedFile | null;
  /** The run whose changes are shown; null for those of the whole session. */
  readonly runId: string | null;
}

export interface Panel extends Shown {
  readonly openFile: (path: string, line: number | null) => void;
  readonly showChanges: (runId: string | null) => void;
  readonly choose: (tab: Tab) => void;
  readonly setOpen: (open: boolean) => void;
}

const name = (sessionId: string) => `dragoman.panel.${sessionId}`;

export function usePanel(sessionId: string): Panel {
  const [known, setKnown] = useState<{ sessionId: string; shown: Shown }>(() => ({
    sessionId,
    shown: remembered(sessionId),
  }));
  const shown = known.sessionId === sessionId ? known.shown : remembered(sessionId);
  const change = useCallback(
    (changed: Partial<Shown>) =>
      setKnown((before) => {
        const base = before.sessionId === sessionId ? before.shown : remembered(sessionId);
        const next = { ...base, ...changed };
        remember(sessionId, next);
        return { sessionId, shown: next };
      }),
    [sessionId],
  );
  return useMemo(
    () => ({
      ...shown,
      openFile: (path, line) => change({ file: { path, line }, tab: "file", open: true }),
      showChanges: (runId) => change({ runId, tab: "changes", open: true }),
      choose: (tab) => change({ tab, open: true }),
      setOpen: (open) => change({ open }),
    }),
    [shown, change],
  );
}

function remember(sessionId: string, { tab, open }: Shown): void {
  try {
    localStorage.setItem(name(sessionId), JSON.stringify({ tab, open }));
  } catch {
    // Then it is not remembered.
  }
}

function remembered(sessionId: string): Shown {
  const none: Shown = { tab: null, open: null, file: null, runId: null };
  try {
    const kept = JSON.parse(localStorage.getItem(name(sessionId)) ?? "{}") as { tab?: unknown; open?: unknown };
    return {
      ...none,
      tab: TABS.find((tab) => tab === kept.tab) ?? null,
      open: typeof kept.open === "boolean" ? kept.open : null,
    };
  } catch {
    return none;
  }
}
