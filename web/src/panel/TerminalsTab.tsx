import { useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { formatDuration } from "../conversation/format";
import { describeDecision } from "../permission";
import type { Terminal } from "../protocol";
import { commandLine, TerminalView } from "../terminal";
import { plural } from "../ui/format";
import { TruncatedList } from "./TruncatedList";
import { useTerminalOutput } from "./served";

/** Commands that the host ran, the newest first, and the output of the selected one. */
export function TerminalsTab({
  bridge,
  sessionId,
  terminals,
  here,
  more,
}: {
  bridge: Bridge;
  sessionId: string;
  terminals: readonly Terminal[];
  /** The terminals whose output is loaded. */
  here: readonly Terminal[];
  /** How many came before all of these. */
  more: number;
}) {
  const [chosen, setChosen] = useState<string | null>(null);
  const shown = terminals.find((terminal) => terminal.id === chosen) ?? terminals.at(-1);
  return (
    <div className="terminals">
      <ul className="changed-files">
        <TruncatedList all={terminals.toReversed()} what="commands">
          {(terminal) => (
            <li key={terminal.id}>
              <button
                type="button"
                className="changed-file"
                aria-pressed={terminal === shown}
                onClick={() => setChosen(terminal.id)}
              >
                <span className="terminal-command">{commandLine(terminal)}</span>
                <span className={terminal.exit_code ? "bad" : "soft"}>{terminalState(terminal)}</span>
              </button>
            </li>
          )}
        </TruncatedList>
      </ul>
      {more > 0 && <p className="soft">{plural(more, "earlier command")} not shown.</p>}
      {shown && (
        <TerminalDetails
          key={shown.id}
          bridge={bridge}
          sessionId={sessionId}
          terminal={shown}
          here={here.includes(shown)}
        />
      )}
    </div>
  );
}

function TerminalDetails({
  bridge,
  sessionId,
  terminal,
  here,
}: {
  bridge: Bridge;
  sessionId: string;
  terminal: Terminal;
  here: boolean;
}) {
  const shown = useTerminalOutput(bridge, sessionId, terminal, here);
  return (
    <section className="file-diffs" aria-label={commandLine(shown)}>
      <p className="path">{commandLine(shown)}</p>
      <p className="soft">{[shown.cwd && `in ${shown.cwd}`, describeDecision(shown)].filter(Boolean).join(" · ")}</p>
      <TerminalView bridge={bridge} sessionId={sessionId} terminalId={shown.terminal_id} terminal={shown} />
    </section>
  );
}

function terminalState({ status, exit_code, signal, time, ended_time }: Terminal): string {
  if (signal !== null) return signal;
  if (exit_code !== null && exit_code !== 0) return `exit ${exit_code}`;
  return exit_code === 0 && ended_time !== null ? formatDuration(ended_time - time) : status;
}
