import { useState } from "react";

import type { AgentItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { navigate } from "../route";
import { useRequest, useStore } from "../store/client";
import { Button } from "../ui/Button";
import { Link } from "../ui/Link";
import { plural } from "../ui/format";
import { ImportHistory } from "./ImportHistory";
import { byReadiness } from "./agents";

/** The welcome, while there are no sessions: three ways to start. */
export function FirstStart() {
  const agents = useStore((known) => known.agents) ?? [];
  const usable = byReadiness(agents).filter((agent) => agent.state !== "missing" && agent.id !== "demo");
  const found = usable.filter((agent) => agent.state === "installed");
  return (
    <div className="start">
      <h1>Welcome to Dragoman</h1>
      <p className="hint">One place to work with every coding agent, review its changes, and answer its requests.</p>
      <div className="start-cards">
        <TryDemo />
        <section>
          <h2>Connect an agent</h2>
          <p>
            {found.length > 0
              ? `${plural(found.length, "agent")} found on this machine:`
              : usable.length > 0
                ? "No agent is installed on this machine, but these can be downloaded:"
                : "No coding agent was found on this machine."}
          </p>
          {usable.length > 0 && (
            <ul className="start-found">
              {(found.length > 0 ? found : usable).map((agent) => (
                <FoundAgent key={agent.id} agent={agent} />
              ))}
            </ul>
          )}
          <Link className="button" to={{ view: "new" }}>
            {usable.length > 0 ? "See all agents" : "See supported agents"}
          </Link>
        </section>
        <ImportHistory />
      </div>
    </div>
  );
}

function TryDemo() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [busy, setBusy] = useState(false);
  const start = async () => {
    setBusy(true);
    const there = await attempt(ask("workspace.recent", {}), "The demo did not start");
    const opened =
      there && (await attempt(ask("session.open", { agent: "demo", cwd: there.home }), "The demo did not start"));
    setBusy(false);
    if (opened !== null) navigate({ view: "session", id: opened.session_id });
  };
  return (
    <section>
      <h2>Try the demo</h2>
      <p>
        A small agent that comes with Dragoman. It needs no account and no network, and asks before it changes anything.
      </p>
      <Button look="primary" disabled={busy} onClick={() => void start()}>
        {busy ? "Starting…" : "Start the demo agent"}
      </Button>
    </section>
  );
}

function FoundAgent({ agent }: { agent: AgentItem }) {
  return (
    <li>
      <Link to={{ view: "new", agent: agent.id }}>{agent.name}</Link> <span className="hint">{agent.version}</span>
    </li>
  );
}
