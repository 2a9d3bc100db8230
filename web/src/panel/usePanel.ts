// The state of the side panel. The tab is stored per session, the width per browser.

import { useCallback, useMemo, useState } from "react";

export const TABS = ["changes", "plan", "terminals", "file", "details"] as const;
export type Tab = (typeof TABS)[number];

export interface OpenedFile {
  readonly path: string;
  readonly line: number | null;
}

interface PanelState {
  readonly tab: Tab | null;
  /** Null until the user chooses: then it is open if it has contents. */
  readonly open: boolean | null;
  readonly file: OpenedFile | null;
  /** The run whose changes are shown; null for the whole session. */
  readonly runId: string | null;
}

export interface Panel extends PanelState {
  readonly openFile: (path: string, line: number | null) => void;
  readonly showChanges: (runId: string | null) => void;
  readonly choose: (tab: Tab) => void;
  readonly setOpen: (open: boolean) => void;
}

const storageKey = (sessionId: string) => `dragoman.panel.${sessionId}`;

export function usePanel(sessionId: string): Panel {
  const [stored, setStored] = useState<{ sessionId: string; panelState: PanelState }>(() => ({
    sessionId,
    panelState: readPanelState(sessionId),
  }));
  const panelState = stored.sessionId === sessionId ? stored.panelState : readPanelState(sessionId);
  const change = useCallback(
    (changed: Partial<PanelState>) =>
      setStored((before) => {
        const base = before.sessionId === sessionId ? before.panelState : readPanelState(sessionId);
        const next = { ...base, ...changed };
        savePanelState(sessionId, next);
        return { sessionId, panelState: next };
      }),
    [sessionId],
  );
  return useMemo(
    () => ({
      ...panelState,
      openFile: (path, line) => change({ file: { path, line }, tab: "file", open: true }),
      showChanges: (runId) => change({ runId, tab: "changes", open: true }),
      choose: (tab) => change({ tab, open: true }),
      setOpen: (open) => change({ open }),
    }),
    [panelState, change],
  );
}

function savePanelState(sessionId: string, { tab, open }: PanelState): void {
  try {
    localStorage.setItem(storageKey(sessionId), JSON.stringify({ tab, open }));
  } catch {
    // Then it is not remembered.
  }
}

function readPanelState(sessionId: string): PanelState {
  const none: PanelState = { tab: null, open: null, file: null, runId: null };
  try {
    const stored = JSON.parse(localStorage.getItem(storageKey(sessionId)) ?? "{}") as { tab?: unknown; open?: unknown };
    return {
      ...none,
      tab: TABS.find((tab) => tab === stored.tab) ?? null,
      open: typeof stored.open === "boolean" ? stored.open : null,
    };
  } catch {
    return none;
  }
}
