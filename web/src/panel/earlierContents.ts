// The contents of rows that are not loaded, requested from the server: the panel covers the whole session.

import { useEffect, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { ChangesSummary, DiffItem, Terminal } from "../protocol";

/** Which rows are here: all from `before` on, and there are `more` or not. */
export interface LoadedRange {
  readonly more: boolean;
  readonly before: number;
}

export interface EarlierContents extends ChangesSummary {
  /** Why it is not known. */
  readonly problem: string;
}

export const FULLY_LOADED: LoadedRange = { more: false, before: 0 };
export const NO_EARLIER_CONTENTS: EarlierContents = {
  files: [],
  more_files: 0,
  terminals: [],
  more_terminals: 0,
  problem: "",
};

/** Requests the contents again when other rows are loaded; the previous answer is used until then. */
export function useEarlierContents(
  bridge: Bridge,
  sessionId: string,
  { more, before }: LoadedRange,
  runId: string | null = null,
): EarlierContents {
  const of = `${sessionId} ${runId ?? ""}`;
  const [answer, setAnswer] = useState({ of, earlier: NO_EARLIER_CONTENTS });
  useEffect(() => {
    if (!more) return;
    let isCurrent = true;
    const tell = (earlier: EarlierContents) => isCurrent && setAnswer({ of, earlier });
    bridge.request("session.changes", { session_id: sessionId, before, run_id: runId }).then(
      (contents) => tell({ ...contents, problem: "" }),
      (error: Error) => tell({ ...NO_EARLIER_CONTENTS, problem: error.message }),
    );
    return () => {
      isCurrent = false;
    };
  }, [bridge, of, sessionId, more, before, runId]);
  return more && answer.of === of ? answer.earlier : NO_EARLIER_CONTENTS;
}

export interface EarlierDiffs {
  readonly diffs: readonly DiffItem[];
  /** The number of earlier changes that are not included. */
  readonly more: number;
  readonly problem: string;
}

/** The changes of a file that are not here; null while they are asked for. */
export function useEarlierDiffs(
  bridge: Bridge,
  sessionId: string,
  path: string,
  { more, before }: LoadedRange,
  runId: string | null,
): EarlierDiffs | null {
  const [answer, setAnswer] = useState<EarlierDiffs | null>(null);
  useEffect(() => {
    if (!more) return;
    let isCurrent = true;
    bridge.request("session.diffs", { session_id: sessionId, path, before, run_id: runId }).then(
      (result) => isCurrent && setAnswer({ ...result, problem: "" }),
      (error: Error) => isCurrent && setAnswer({ diffs: [], more: 0, problem: error.message }),
    );
    return () => {
      isCurrent = false;
    };
  }, [bridge, sessionId, path, more, before, runId]);
  return more ? answer : { diffs: [], more: 0, problem: "" };
}

/** A terminal with its output, which earlier contents leave out. */
export function useTerminalOutput(bridge: Bridge, sessionId: string, terminal: Terminal, here: boolean): Terminal {
  const [whole, setWhole] = useState<Terminal | null>(null);
  const { id } = terminal;
  useEffect(() => {
    if (here) return;
    let isCurrent = true;
    bridge.request("session.row", { session_id: sessionId, table: "terminals", row_id: id }).then(
      ({ row }) => isCurrent && row.table === "terminals" && setWhole(row),
      () => undefined, // then it is shown without
    );
    return () => {
      isCurrent = false;
    };
  }, [bridge, sessionId, id, here]);
  return !here && whole?.id === id ? whole : terminal;
}
