import { useState } from "react";

import type { AgentItem } from "../protocol";
import { useStore } from "../store/client";
import { byReadiness } from "../start/agents";
import { Button } from "../ui/Button";
import { AgentForm } from "./AgentForm";
import { AgentRow } from "./AgentRow";

type Editing = { agent: AgentItem } | "new" | null;

export function AgentSettings() {
  const agents = useStore((known) => known.agents);
  const [editing, setEditing] = useState<Editing>(null);
  if (agents === null) return <p className="hint">Looking for agents…</p>;
  return (
    <section aria-label="Agents">
      <div className="settings-head">
        <p className="hint">Agents that can run here. You can change each command and store a key for it.</p>
        <Button onClick={() => setEditing("new")}>Add an agent</Button>
      </div>
      <ul className="settings-list">
        {byReadiness(agents).map((agent) => (
          <AgentRow key={agent.id} agent={agent} onEdit={() => setEditing({ agent })} />
        ))}
      </ul>
      {editing !== null && (
        <AgentForm agent={editing === "new" ? null : editing.agent} onClose={() => setEditing(null)} />
      )}
    </section>
  );
}
