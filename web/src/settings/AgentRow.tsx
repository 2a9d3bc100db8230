import { useState } from "react";

import type { AgentItem, AgentTestResult } from "../protocol";
import { LoginDialog } from "../login/LoginDialog";
import { useAttempt, useNotify } from "../notice/notices";
import { agentStateText } from "../start/agents";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";
import { commandLine } from "./commandLine";

export function AgentRow({ agent, onEdit }: { agent: AgentItem; onEdit: () => void }) {
  const ask = useRequest();
  const attempt = useAttempt();
  const notify = useNotify();
  const [loggingIn, setLoggingIn] = useState(false);
  const [tested, setTested] = useState<AgentTestResult | "testing" | null>(null);

  const test = async () => {
    setTested("testing");
    setTested(await attempt(ask("agent.test", { agent: agent.id }), `${agent.name} was not tested`));
  };
  const makeDefault = async () => {
    const done = await attempt(
      ask("agent.edit", { agent: agent.id, default: true }),
      "The default agent was not changed",
    );
    if (done !== null) notify({ tone: "good", text: `New sessions start with ${agent.name}.` });
  };
  const remove = async () => {
    const done = await attempt(ask("agent.remove", { agent: agent.id }), `${agent.name} was not removed`);
    if (done !== null) notify({ tone: "good", text: `Your settings for ${agent.name} were removed.` });
  };
  return (
    <li className="settings-item">
      <div>
        <h2>
          {agent.name} {agent.default && <span className="tag">default</span>}{" "}
          {agent.is_custom && <span className="tag">custom</span>}
        </h2>
        <p className="hint">{agentStateText(agent)}</p>
        <p>
          <code className="settings-command">{commandLine(agent.command, agent.args)}</code>
          {agent.has_key && <span className="hint"> · key stored</span>}
        </p>
        {agent.state === "missing" && agent.install !== null && <CopyLine text={agent.install} />}
        {tested !== null && tested !== "testing" && <TestResult tested={tested} onLogin={() => setLoggingIn(true)} />}
      </div>
      <div className="buttons">
        <Button
          disabled={tested === "testing" || agent.state === "missing"}
          onClick={() => void test()}
          aria-label={`Test ${agent.name}`}
        >
          {tested === "testing" ? "Testing…" : "Test"}
        </Button>
        <Button onClick={onEdit} aria-label={`Edit ${agent.name}`}>
          Edit
        </Button>
        {!agent.default && agent.state !== "missing" && (
          <Button look="quiet" onClick={() => void makeDefault()} aria-label={`Make default: ${agent.name}`}>
            Make default
          </Button>
        )}
        {agent.is_custom && (
          <Button look="quiet" onClick={() => void remove()} aria-label={`Remove: ${agent.name}`}>
            Remove
          </Button>
        )}
      </div>
      {loggingIn && <LoginDialog agent={agent.id} onClose={() => setLoggingIn(false)} onDone={() => void test()} />}
    </li>
  );
}

function TestResult({ tested, onLogin }: { tested: AgentTestResult; onLogin: () => void }) {
  return (
    <div role="status" className={tested.ok ? "settings-result good" : "settings-result bad"}>
      <p>{tested.ok ? `It works: ${[tested.name, tested.version].filter(Boolean).join(" ")}` : tested.message}</p>
      {tested.guidance !== "" && <p className="hint">{tested.guidance}</p>}
      {!tested.ok && tested.methods.length > 0 && (
        <p>
          <Button onClick={onLogin}>Log in</Button>
        </p>
      )}
      {tested.stderr !== "" && (
        <details>
          <summary>Agent log</summary>
          <pre>{tested.stderr}</pre>
        </details>
      )}
    </div>
  );
}
