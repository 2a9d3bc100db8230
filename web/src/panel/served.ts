// The contents of the panel as the server computes them, over the whole session: changed files, their diffs, and
// terminals of rows that are not loaded.

import { useEffect, useMemo, useRef, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { ChangesSummary, FileDiffs, Rows, Terminal } from "../protocol";
import { useEvent } from "../ui/useEvent";

/** The loaded rows are those from `before` on; with `more` there are earlier ones. */
export interface LoadedRange {
  readonly more: boolean;
  readonly before: number;
}

export const FULLY_LOADED: LoadedRange = { more: false, before: 0 };

const NO_CHANGES: ChangesSummary = { files: [], more_files: 0, runs: [], terminals: [], more_terminals: 0 };

export interface SessionChanges extends ChangesSummary {
  /** Why the changes could not be loaded. */
  readonly problem: string;
  /** The session was opened with diffs, which the server has not summed up yet. */
  readonly isLoading: boolean;
}

export const NO_SESSION_CHANGES: SessionChanges = { ...NO_CHANGES, problem: "", isLoading: false };

const REFRESH_PAUSE_MS = 250; // between an answer and the next request, so that fast edits do not flood the server

interface Answer<T> {
  readonly subject: string;
  readonly value: T | null;
  readonly problem: string;
}

/**
 * The last answer to a request about a subject. It is requested again when `version` changes, one request at a time;
 * the previous answer is used until then. Nothing is requested while `version` is null.
 */
function useLatest<T>(subject: string, version: string | null, request: () => Promise<T>): Answer<T> {
  const [answer, setAnswer] = useState<Answer<T>>({ subject, value: null, problem: "" });
  const latest = useRef(version);
  const refresh = useRef<() => void>(() => {});
  const send = useEvent(request);
  useEffect(() => {
    let isCurrent = true;
    let isBusy = false;
    let lastVersion: string | null = null;
    const ask = () => {
      if (!isCurrent || isBusy || latest.current === lastVersion || latest.current === null) return;
      isBusy = true;
      lastVersion = latest.current;
      const finish = (made: Answer<T>) => {
        if (!isCurrent) return;
        setAnswer(made);
        setTimeout(() => {
          isBusy = false;
          ask();
        }, REFRESH_PAUSE_MS);
      };
      send().then(
        (value) => finish({ subject, value, problem: "" }),
        (error: Error) => finish({ subject, value: null, problem: error.message }),
      );
    };
    refresh.current = ask;
    return () => {
      isCurrent = false;
    };
  }, [subject, send]);
  useEffect(() => {
    latest.current = version;
    refresh.current();
  }, [subject, version]);
  return answer.subject === subject ? answer : { subject, value: null, problem: "" };
}

/** The changes of a session, or of one run. */
export function useSessionChanges(
  bridge: Bridge,
  sessionId: string,
  rows: Rows,
  { more, before }: LoadedRange,
  runId: string | null = null,
): SessionChanges {
  const { tool_calls, file_calls, permissions } = rows;
  const diffs = useMemo(
    () => diffVersion({ tool_calls, file_calls, permissions }),
    [tool_calls, file_calls, permissions],
  );
  const version = more ? `${before} ${diffs}` : diffs || null;
  const { value, problem } = useLatest(`${sessionId} ${runId ?? ""}`, version, () =>
    bridge.request("session.changes", { session_id: sessionId, run_id: runId }),
  );
  const [hadDiffs] = useState(diffs !== "");
  const isLoading = hadDiffs && value === null && problem === "";
  return useMemo(() => ({ ...(value ?? NO_CHANGES), problem, isLoading }), [value, problem, isLoading]);
}

/**
 * A text that changes whenever the changes of the session may have: which diffs count is decided by the server. Empty
 * if there are no diffs.
 */
export function diffVersion(rows: Pick<Rows, "tool_calls" | "file_calls" | "permissions">): string {
  const statuses = new Map(rows.tool_calls.map((call) => [call.id, call.status]));
  const parts: string[] = [];
  for (const { id, status, content } of rows.tool_calls) {
    if (content.some((item) => item.type === "diff")) parts.push(`${id} ${status}`);
  }
  for (const { id, status, diff } of rows.file_calls) if (diff !== null) parts.push(`${id} ${status}`);
  for (const { id, outcome, content, tool_call_row } of rows.permissions) {
    if (content.some((item) => item.type === "diff")) {
      parts.push(`${id} ${outcome} ${statuses.get(tool_call_row ?? "") ?? ""}`);
    }
  }
  return parts.join("\n");
}

export interface ServedDiffs extends FileDiffs {
  readonly problem: string;
}

/** The changes of a file, requested again when `version` changes; null until they are loaded. */
export function useFileDiffs(
  bridge: Bridge,
  sessionId: string,
  path: string,
  runId: string | null,
  version: string,
): ServedDiffs | null {
  const { value, problem } = useLatest(`${sessionId} ${runId ?? ""} ${path}`, version, () =>
    bridge.request("session.diffs", { session_id: sessionId, path, run_id: runId }),
  );
  return value === null && problem === "" ? null : { ...(value ?? { diffs: [], more: 0 }), problem };
}

/** A terminal with its output, which the summary leaves out. */
export function useTerminalOutput(bridge: Bridge, sessionId: string, terminal: Terminal, isLoaded: boolean): Terminal {
  const { id } = terminal;
  const { value } = useLatest(`${sessionId} ${id}`, isLoaded ? null : "once", () =>
    bridge.request("session.row", { session_id: sessionId, table: "terminals", row_id: id }),
  );
  return !isLoaded && value?.row.table === "terminals" ? value.row : terminal;
}
