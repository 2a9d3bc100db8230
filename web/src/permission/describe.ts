// Describes who or what answered a request. Pure.

import { escapeInvisible } from "./escapeInvisible";
import type { DecidedRow, Permission, PermissionOption, Question } from "../protocol";

export type Answer = "allowed" | "denied" | "withdrawn" | "pending";

/** The outcome of a permission request. */
export function permissionAnswer({ outcome, option_id, options, decision }: Permission): Answer {
  if (outcome === "pending") return "pending";
  if (outcome !== "selected") return decision === "deny" ? "denied" : "withdrawn";
  const kind = options.find((option) => option.option_id === option_id)?.kind ?? "";
  if (kind !== "") return kind.startsWith("allow") ? "allowed" : "denied";
  return decision === "allow" ? "allowed" : "denied";
}

interface OptionDescription {
  readonly label: string;
  readonly effect: string;
  /** Words that say no more than the label. */
  readonly same: readonly string[];
}

const OPTIONS: Readonly<Record<string, OptionDescription>> = {
  allow_once: { label: "Allow once", effect: "Allow this once", same: ["allow", "allow once"] },
  allow_always: {
    label: "Allow always",
    effect: "Allow this from now on: the agent may remember it, and Dragoman saves a rule for this workspace",
    same: ["allow always", "always allow"],
  },
  reject_once: { label: "Deny", effect: "Deny this once", same: ["deny", "deny once", "reject", "reject once"] },
  reject_always: {
    label: "Deny always",
    effect: "Deny this from now on: the agent may remember it, and Dragoman saves a rule for this workspace",
    same: ["deny always", "always deny", "reject always", "always reject"],
  },
};

/** The effect of an option, whatever the agent calls it. */
export function describeOption(kind: string): OptionDescription {
  return OPTIONS[kind] ?? { label: "Other", effect: `An answer of the agent's own kind: ${kind}`, same: [] };
}

/** The agent's own name of an option; empty if it says no more than our label. */
export function agentWords({ kind, name }: PermissionOption): string {
  const words = name.trim();
  return describeOption(kind).same.includes(words.toLowerCase()) ? "" : words;
}

/** Why no rule can answer a request, as a sentence. It may quote a path, which the agent chose. */
export function describeGuard(reason: string): string {
  const words = escapeInvisible(reason);
  return `${words.charAt(0).toUpperCase()}${words.slice(1)}${/[.!?]$/.test(words) ? "" : "."}`;
}

const ANSWERS: Readonly<Record<Answer, string>> = {
  allowed: "Allowed",
  denied: "Denied",
  withdrawn: "Withdrawn",
  pending: "Waiting for an answer",
};

/** `Allowed by the rule “…”`, `Denied by you`. */
export function describePermission(permission: Permission): string {
  const answer = permissionAnswer(permission);
  if (answer === "pending") return ANSWERS.pending;
  const chosen = permission.options.find((option) => option.option_id === permission.option_id);
  // Only an answer that lasts needs its name: “Allow always” says more than “Allowed”.
  const isLasting = permission.decided_by === "person" && chosen?.kind.endsWith("_always");
  const by = isLasting ? ` (“${chosen?.name}”)` : "";
  return ANSWERS[answer] + describeReason(permission) + by;
}

/** The decision about a file or terminal of the host; empty if none was needed. */
export function describeDecision(decided: DecidedRow): string {
  if (decided.decided_by === null) return "";
  const answer = decided.decision === "allow" ? "Allowed" : decided.decision === "deny" ? "Denied" : "Withdrawn";
  return answer + describeReason(decided);
}

function describeReason({ decided_by, rule, layer, reason, remembered }: DecidedRow): string {
  const saved = remembered.length > 0 ? `; saved rule: ${remembered.join("; ")}` : "";
  const why = reason ? `: ${reason}` : "";
  switch (decided_by) {
    case "rule":
      return rule ? ` by the rule “${rule}”${layer ? ` (${layer})` : ""}` : ` by a rule${why}`;
    case "person":
      return ` by you${saved}`;
    case "timeout":
      return " because nobody answered in time";
    case "cancel":
      return " because the run was stopped";
    case "callback":
      return why || " by a program";
    default:
      return why;
  }
}

const ACTIONS: Readonly<Record<string, string>> = {
  accept: "Answered",
  decline: "Declined",
  cancel: "Skipped",
  failed: "Could not be shown",
};

export function describeQuestion(question: Question): string {
  return (ACTIONS[question.action] ?? question.action) + describeReason(question);
}
