// The list below the caret: files from the server, commands from the agent.

import { useEffect, useMemo, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { Command } from "../protocol";
import { fittingCommands, type Trigger } from "./completion";

export interface Suggestion {
  readonly value: string;
  readonly note: string;
}

/** Typing is quicker than asking; only what stays this long is asked. */
const PAUSE = 60;
const SHOWN = 12;

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
    return fittingCommands(commands, trigger.query)
      .slice(0, SHOWN)
      .map((command) => ({ value: command.name, note: command.hint ?? command.description }));
  }, [trigger, files, commands]);
}

function useFiles(bridge: Bridge, sessionId: string, query: string | null): readonly string[] {
  const [found, setFound] = useState<readonly string[]>([]);
  useEffect(() => {
    if (query === null) return;
    let wanted = true;
    const timer = setTimeout(() => {
      bridge.control("files.list", { session_id: sessionId, query, limit: SHOWN }).then(
        ({ paths }) => wanted && setFound(paths),
        () => wanted && setFound([]),
      );
    }, PAUSE);
    return () => {
      wanted = false;
      clearTimeout(timer);
    };
  }, [bridge, sessionId, query]);
  return query === null ? [] : found;
}
