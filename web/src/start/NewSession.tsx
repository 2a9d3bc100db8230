import { useEffect, useState } from "react";
import type { SyntheticEvent } from "react";

import type { RecentWorkspaces } from "../protocol";
import { noticeOf, useAttempt } from "../notice/notices";
import type { NewNotice } from "../notice/notices";
import { navigate } from "../route";
import { useRequest, useStore } from "../store/client";
import { Button } from "../ui/Button";
import { AgentPicker } from "./AgentPicker";
import { WorkspacePicker } from "./WorkspacePicker";
import { ACCESSES } from "./access";
import { defaultAgent } from "./agents";
import "./start.css";

/** The form for a new session: agent, folder and access. */
export function NewSession({ agent: wanted, cwd: given }: { agent?: string; cwd?: string }) {
  const ask = useRequest();
  const attempt = useAttempt();
  const agents = useStore((known) => known.agents);
  const [workspaces, setWorkspaces] = useState<RecentWorkspaces | null>(null);
  const [agent, setAgent] = useState<string | null>(null);
  const [cwd, setCwd] = useState<string | null>(given ?? null);
  const [access, setAccess] = useState("ask");
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<NewNotice | null>(null);

  useEffect(() => {
    void attempt(ask("workspace.recent", {}), "The recent workspaces were not loaded").then(setWorkspaces);
  }, [ask, attempt]);
  const chosenAgent = agent ?? (agents === null ? null : defaultAgent(agents, wanted));
  const chosenCwd = cwd ?? workspaces?.workspaces[0]?.cwd ?? workspaces?.home ?? "";

  const start = async (event: SyntheticEvent) => {
    event.preventDefault();
    setBusy(true);
    setProblem(null);
    try {
      const { session_id } = await ask("session.open", { agent: chosenAgent, cwd: chosenCwd.trim(), access });
      navigate({ view: "session", id: session_id });
    } catch (error) {
      setProblem(noticeOf(error, "The session was not started"));
      setBusy(false);
    }
  };
  return (
    <form className="start" onSubmit={(event) => void start(event)}>
      <h1>New session</h1>
      <fieldset>
        <legend>Agent</legend>
        {agents === null ? (
          <p className="hint">Looking for agents…</p>
        ) : (
          <AgentPicker agents={agents} chosen={chosenAgent} onChoose={setAgent} />
        )}
      </fieldset>
      <fieldset>
        <legend>Workspace</legend>
        <WorkspacePicker workspaces={workspaces} cwd={chosenCwd} onChange={setCwd} />
      </fieldset>
      <fieldset>
        <legend>Access</legend>
        <div className="start-access">
          {ACCESSES.map((choice) => (
            <label key={choice.id} className="choice">
              <input type="radio" name="access" checked={choice.id === access} onChange={() => setAccess(choice.id)} />
              <span>
                {choice.name}
                <small>{choice.means}</small>
              </span>
            </label>
          ))}
        </div>
      </fieldset>
      {problem !== null && (
        <div role="alert" className="start-problem">
          <p>{problem.text}</p>
          {problem.guidance && <p className="hint">{problem.guidance}</p>}
        </div>
      )}
      <div className="buttons">
        <Button look="primary" type="submit" disabled={busy || chosenAgent === null || chosenCwd.trim() === ""}>
          {busy ? "Starting…" : "Start"}
        </Button>
      </div>
    </form>
  );
}
