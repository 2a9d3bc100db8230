import { useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { duration } from "../conversation/words";
import { decisionWords } from "../permission";
import type { Terminal } from "../protocol";
import { commandLine, TerminalView } from "../terminal";

/** Commands that were run through us, the newest first, and what the chosen one wrote. */
export function TerminalsTab({
  bridge,
  sessionId,
  terminals,
}: {
  bridge: Bridge;
  sessionId: string;
  terminals: readonly Terminal[];
}) {
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = terminals.find((terminal) => terminal.id === chosen) ?? terminals.at(-1);
  return (
    <div className="terminals">
      <ul className="changed-files">
        {terminals.toReversed().map((terminal) => (
          <li key={terminal.id}>
            <button
              type="button"
              className="changed-file"
              aria-pressed={terminal === shown}
              onClick={() => setChosen(terminal.id)}
            >
              <span className="terminal-command">{commandLine(terminal)}</span>
              <span className={terminal.exit_code ? "bad" : "soft"}>{stateWords(terminal)}</span>
            </button>
          </li>
        ))}
      </ul>
      {shown && (
        <section className="file-diffs" aria-label={commandLine(shown)}>
          <p className="path">{commandLine(shown)}</p>
          <p className="soft">
            {[shown.cwd && `in ${shown.cwd}`, decisionWords(shown.decided)].filter(Boolean).join(" · ")}
          </p>
          <TerminalView
            key={shown.id}
            bridge={bridge}
            sessionId={sessionId}
            terminalId={shown.terminal_id}
            terminal={shown}
          />
        </section>
      )}
    </div>
  );
}

function stateWords({ status, exit_code, signal, time, ended_time }: Terminal): string {
  if (signal !== null) return signal;
  if (exit_code !== null && exit_code !== 0) return `exit ${exit_code}`;
  return exit_code === 0 && ended_time !== null ? duration(ended_time - time) : status;
}
