import { useState, type FormEvent } from "react";

import type { Bridge } from "../conversation/bridge";
import type { Terminal } from "../protocol";
import { commandLine } from "./command";
import { useLiveTerminal } from "./live";
import { base64Of } from "./escapes";
import { Output, ScreenView } from "./ScreenView";

interface Props {
  bridge: Bridge;
  sessionId: string;
  /** As the agent's tool calls name it. */
  terminalId: string | null;
  /** The terminal's row; null until it arrives. */
  terminal: Terminal | null;
}

/** A terminal: live while it runs, then its recorded output. */
export function TerminalView({ bridge, sessionId, terminalId, terminal }: Props) {
  const over = terminal !== null && terminal.status !== "running" && terminal.status !== "pending";
  const recorded = over && terminal.output !== null;
  const live = useLiveTerminal(bridge, sessionId, recorded || terminal?.status === "pending" ? null : terminalId);
  const name = terminal ? `Output of ${commandLine(terminal)}` : "Output of a command";
  return (
    <div className="terminal">
      {terminal?.truncated && <p className="terminal-note">Only the end of the output was recorded.</p>}
      {terminal?.error && <p className="terminal-note bad">{terminal.error}</p>}
      {terminal?.status === "pending" ? (
        <p className="terminal-note">Not started yet.</p>
      ) : recorded ? (
        <Recorded output={terminal.output ?? ""} name={name} />
      ) : (
        <ScreenView lines={live?.lines ?? []} name={name} />
      )}
      {!over && live !== null && !live.ended && terminalId !== null && (
        <Controls bridge={bridge} sessionId={sessionId} terminalId={terminalId} typable={live.typable} />
      )}
    </div>
  );
}

function Recorded({ output, name }: { output: string; name: string }) {
  return output === "" ? <p className="terminal-note">No output.</p> : <Output text={output} name={name} />;
}

function Controls({
  bridge,
  sessionId,
  terminalId,
  typable,
}: {
  bridge: Bridge;
  sessionId: string;
  terminalId: string;
  typable: boolean;
}) {
  const [text, setText] = useState("");
  const [problem, setProblem] = useState("");
  const did = (sent: Promise<unknown>) =>
    sent.then(
      () => setProblem(""),
      (error: Error) => setProblem(error.message),
    );
  const type = (data: string) =>
    did(bridge.request("terminal.input", { session_id: sessionId, terminal_id: terminalId, data: base64Of(data) }));
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void type(`${text}\n`);
    setText("");
  };
  return (
    <>
      <form className="terminal-controls" onSubmit={submit}>
        {typable && (
          <input
            value={text}
            onChange={(event) => setText(event.target.value)}
            aria-label="Type into the terminal"
            placeholder="Type input, then press Enter"
          />
        )}
        {typable && (
          <button type="button" className="small-button" onClick={() => void type("\u0003")}>
            Ctrl-C
          </button>
        )}
        <button
          type="button"
          className="small-button"
          onClick={() => void did(bridge.request("terminal.kill", { session_id: sessionId, terminal_id: terminalId }))}
        >
          Kill
        </button>
      </form>
      {problem && (
        <p className="terminal-note bad" role="alert">
          {problem}
        </p>
      )}
    </>
  );
}
