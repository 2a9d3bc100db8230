// The list below the caret: files from the server, commands from the agent.

import { useEffect, useMemo, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { Command } from "../protocol";
import { matchingCommands, type Trigger } from "./completion";

export interface Suggestion {
  readonly value: string;
  readonly note: string;
}

/** Milliseconds without typing before the server is asked. */
const DEBOUNCE_MS = 60;
const MAX_SHOWN = 12;

export function useSuggestions(
  bridge: Bridge,
  sessionId: string,
  trigger: Trigger | null,
  commands: readonly Command[],
): readonly Suggestion[] {
  const query = trigger?.kind === "file" ? trigger.query : null;
  const files = useFiles(bridge, sessionId, query);
  return useMemo(() => {
    if (trigger === null) return [];
    if (trigger.kind === "file") return files.map((path) => ({ value: path, note: "" }));
    return matchingCommands(commands, trigger.query)
      .slice(0, MAX_SHOWN)
      .map((command) => ({ value: command.name, note: command.hint ?? command.description }));
  }, [trigger, files, commands]);
}

function useFiles(bridge: Bridge, sessionId: string, query: string | null): readonly string[] {
  const [paths, setPaths] = useState<readonly string[]>([]);
  useEffect(() => {
    if (query === null) return;
    let isCurrent = true;
    const timer = setTimeout(() => {
      bridge.request("files.list", { session_id: sessionId, query, limit: MAX_SHOWN }).then(
        ({ paths }) => isCurrent && setPaths(paths),
        () => isCurrent && setPaths([]),
      );
    }, DEBOUNCE_MS);
    return () => {
      isCurrent = false;
      clearTimeout(timer);
    };
  }, [bridge, sessionId, query]);
  return query === null ? [] : paths;
}
