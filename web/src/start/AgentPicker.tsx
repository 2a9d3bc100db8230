import type { AgentItem } from "../protocol";
import { CopyLine } from "../ui/CopyLine";
import { byReadiness, agentStateText } from "./agents";

interface Props {
  agents: readonly AgentItem[];
  chosen: string | null;
  onChoose: (id: string) => void;
}

/** Agents that can be started; below them those that are not installed, and how to install them. */
export function AgentPicker({ agents, chosen, onChoose }: Props) {
  const sorted = byReadiness(agents);
  const usable = sorted.filter((agent) => agent.state !== "missing");
  const missing = sorted.filter((agent) => agent.state === "missing");
  return (
    <>
      <div className="start-agents">
        {usable.map((agent) => (
          <label key={agent.id} className="choice">
            <input type="radio" name="agent" checked={agent.id === chosen} onChange={() => onChoose(agent.id)} />
            <span>
              {agent.name}
              <small>{agentStateText(agent)}</small>
              {agent.id === chosen && agent.note !== null && <small>{agent.note}</small>}
            </span>
          </label>
        ))}
      </div>
      {missing.length > 0 && (
        <details className="start-missing" open={usable.length === 0}>
          <summary>{missing.length} more, not installed</summary>
          <ul>
            {missing.map((agent) => (
              <li key={agent.id}>
                <p>
                  <strong>{agent.name}</strong> <span className="hint">{agent.description}</span>
                </p>
                {agent.install !== null && (
                  <CopyLine text={agent.install} what={`Copy the install command of ${agent.name}`} />
                )}
                {(agent.error ?? agent.hint) !== null && <p className="hint">{agent.error ?? agent.hint}</p>}
              </li>
            ))}
          </ul>
        </details>
      )}
    </>
  );
}
