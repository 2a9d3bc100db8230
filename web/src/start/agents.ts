// Agents in order of readiness.

import type { AgentItem } from "../protocol";

const ORDER = ["installed", "downloads", "missing"];

/** Those that can be started come first, the default one before the others; otherwise in the server's order. */
export function byReadiness(agents: readonly AgentItem[]): readonly AgentItem[] {
  const rank = (agent: AgentItem) => ORDER.indexOf(agent.state) * 2 + (agent.default ? 0 : 1);
  return agents.toSorted((a, b) => rank(a) - rank(b));
}

export function defaultAgent(agents: readonly AgentItem[], wanted: string | undefined): string | null {
  const usable = byReadiness(agents).filter((agent) => agent.state !== "missing");
  return (usable.find((agent) => agent.id === wanted) ?? usable[0])?.id ?? null;
}

export function agentStateText(agent: AgentItem): string {
  if (agent.error !== null) return agent.error;
  if (agent.state === "installed") return agent.version === null ? "installed" : `installed, ${agent.version}`;
  if (agent.state === "downloads") return "downloaded on first start";
  return "not installed";
}
