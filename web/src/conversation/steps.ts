// Steps: the agent's actions, one line each. A tool call, its permission and the files and terminals that the host
// served for it are one step; so is a host call without a tool call. Pure.

import type { DiffItem, FileCall, Permission, Terminal, ToolCall } from "../protocol";
import { permissionAnswer } from "../permission/describe";
import { commandLine } from "../terminal/command";

export type StepState = "waiting" | "running" | "done" | "failed" | "denied" | "cancelled";
export type HostCall = FileCall | Terminal;

export interface Step {
  readonly key: string;
  readonly row: ToolCall | HostCall;
  readonly kind: string;
  readonly title: string;
  readonly state: StepState;
  readonly started: number;
  readonly ended: number | null;
  /** Seconds that it waited for the user's answer. */
  readonly waited: number;
  /** How its command ended, if not with exit code 0: "exit 3", or the signal. */
  readonly failure: string;
  readonly diffs: readonly DiffItem[];
  readonly permission: Permission | null;
  /** The host calls that belong to this tool call. */
  readonly hostCalls: readonly HostCall[];
  /** The calls of the sub-agent that this one started. */
  readonly children: readonly Step[];
}

export type StepRow = ToolCall | HostCall | Permission;

/** The steps of one run by row id. `mergedPermissions` are shown by their steps. */
export interface Steps {
  readonly top: ReadonlyMap<string, Step>;
  readonly mergedPermissions: ReadonlySet<Permission>;
}

interface Parts {
  row: ToolCall | HostCall;
  permission: Permission | null;
  hostCalls: HostCall[];
  children: Parts[];
}

/** `before` are the steps of the same rows as they were: a step that did not change is the same object. */
export function stepsOf(rows: readonly StepRow[], before: ReadonlyMap<string, Step>): Steps {
  const calls = new Map<string, Parts>();
  const byAgentId = new Map<string, Parts>();
  const byTerminal = new Map<string, Parts>();
  const top: Parts[] = [];
  const mergedPermissions = new Set<Permission>();
  for (const row of rows) {
    if (row.table !== "tool_calls") continue;
    const parts: Parts = { row, permission: null, hostCalls: [], children: [] };
    calls.set(row.id, parts);
    if (row.tool_call_id !== "") byAgentId.set(row.tool_call_id, parts);
    for (const item of row.content) if (item.type === "terminal") byTerminal.set(item.terminal_id, parts);
  }
  for (const parts of calls.values()) {
    const parent = parentOf(parts, byAgentId);
    if (parent) parent.children.push(parts);
    else top.push(parts);
  }
  for (const row of rows) {
    if (row.table === "file_calls" || row.table === "terminals") {
      const call = row.table === "terminals" ? byTerminal.get(row.terminal_id ?? "") : callOfFile(row, calls);
      if (call) call.hostCalls.push(row);
      else top.push({ row, permission: null, hostCalls: [], children: [] });
    } else if (row.table === "permissions" && row.outcome !== "pending") {
      const call = calls.get(row.tool_call_row ?? "");
      if (call) {
        call.permission = row;
        mergedPermissions.add(row);
      }
    }
  }
  return { top: new Map(top.map((parts) => [parts.row.id, buildStep(parts, before)])), mergedPermissions };
}

function parentOf(parts: Parts, byAgentId: ReadonlyMap<string, Parts>): Parts | null {
  const id = parts.row.table === "tool_calls" ? parts.row.parent_id : null;
  const parent = id === null ? undefined : byAgentId.get(id);
  // A call that names itself or one of its own children would never be shown.
  for (let at = parent, depth = 0; at; depth++) {
    if (at === parts || depth > 20) return null;
    const above: string | null = at.row.table === "tool_calls" ? at.row.parent_id : null;
    at = above === null ? undefined : byAgentId.get(above);
  }
  return parent ?? null;
}

/** The call during which a file was read or written that it names. */
function callOfFile(file: FileCall, calls: ReadonlyMap<string, Parts>): Parts | undefined {
  for (const parts of calls.values()) {
    const call = parts.row as ToolCall;
    if (call.position > file.position || (call.ended_time !== null && call.ended_time < file.time)) continue;
    const named = call.locations.some((location) => location.path === file.path);
    if (named || call.content.some((item) => item.type === "diff" && item.path === file.path)) return parts;
  }
  return undefined;
}

function buildStep(parts: Parts, before: ReadonlyMap<string, Step>): Step {
  const { row, permission, hostCalls } = parts;
  const children = parts.children.map((child) => buildStep(child, before));
  const previous = before.get(row.id);
  if (
    previous &&
    previous.row === row &&
    previous.permission === permission &&
    isSameList(previous.hostCalls, hostCalls) &&
    isSameList(previous.children, children)
  ) {
    return previous;
  }
  const summary =
    row.table === "tool_calls"
      ? summarizeCall(row, permission, hostCalls)
      : row.table === "file_calls"
        ? summarizeFile(row)
        : summarizeTerminal(row);
  const written = hostCalls.flatMap((one) =>
    one.table === "file_calls" && one.diff && one.status === "done" ? [one.diff] : [],
  );
  // Some agents show a diff only in the permission request, and report none afterwards.
  const requested = summary.state === "done" ? (permission?.content.filter((item) => item.type === "diff") ?? []) : [];
  const diffs = [summary.diffs, written, requested].find((some) => some.length > 0) ?? [];
  return {
    key: row.id,
    row,
    started: row.time,
    ended: row.ended_time,
    waited: secondsUntilAnswer(permission),
    permission,
    hostCalls,
    children,
    ...summary,
    diffs,
  };
}

export function isSameList<T>(one: readonly T[], other: readonly T[]): boolean {
  return one.length === other.length && one.every((value, at) => value === other[at]);
}

function secondsUntilAnswer(permission: Permission | null): number {
  if (permission?.decided_by !== "person" || permission.resolved_time === null) return 0;
  return Math.max(0, permission.resolved_time - permission.time);
}

type StepSummary = Pick<Step, "kind" | "title" | "state" | "diffs" | "failure">;

function summarizeCall(call: ToolCall, permission: Permission | null, hostCalls: readonly HostCall[]): StepSummary {
  const diffs = call.content.filter((item) => item.type === "diff");
  const failure = failureOfCall(call, hostCalls);
  return {
    kind: call.kind,
    title: call.title.trim() || call.name || call.kind,
    state: stateOfCall(call, permission, failure),
    diffs,
    failure,
  };
}

/** How the command of a call failed: agents call a tool completed whose command did not succeed. */
function failureOfCall(call: ToolCall, hostCalls: readonly HostCall[]): string {
  const terminals = hostCalls.filter((one) => one.table === "terminals" && one.status === "exited") as Terminal[];
  const reported = call.raw_output as { exitCode?: unknown; exit_code?: unknown } | null;
  const code = call.exit_code ?? reported?.exitCode ?? reported?.exit_code ?? null;
  const own = commandFailure({ exit_code: typeof code === "number" ? code : null, signal: call.signal });
  return own || terminals.map(commandFailure).find((text) => text !== "") || "";
}

function commandFailure({ exit_code, signal }: Pick<Terminal, "exit_code" | "signal">): string {
  if (signal !== null) return signal;
  return exit_code === null || exit_code === 0 ? "" : `exit ${exit_code}`;
}

function stateOfCall(call: ToolCall, permission: Permission | null, failure: string): StepState {
  const answer = permission ? permissionAnswer(permission) : null;
  if (call.status === "completed") return failure === "" ? "done" : "failed";
  if (answer === "denied") return "denied";
  if (call.status === "failed") return "failed";
  if (answer === "withdrawn") return "cancelled";
  // An agent that was cut never says how its call ended.
  if (call.ended_time !== null) return "cancelled";
  return call.status === "pending" ? "waiting" : "running";
}

function summarizeFile(file: FileCall): StepSummary {
  const title = `${file.operation === "read" ? "Read" : "Write"} ${file.path}`;
  const state = (
    { pending: "waiting", done: "done", failed: "failed", denied: "denied", cancelled: "cancelled" } as const
  )[file.status];
  return {
    kind: file.operation === "read" ? "read" : "edit",
    title,
    state,
    diffs: file.diff && file.operation === "write" ? [file.diff] : [],
    failure: "",
  };
}

function summarizeTerminal(terminal: Terminal): StepSummary {
  const state = stateOfTerminal(terminal);
  const failure = state === "failed" ? commandFailure(terminal) : "";
  return { kind: "execute", title: commandLine(terminal), state, diffs: [], failure };
}

function stateOfTerminal({ status, exit_code }: Terminal): StepState {
  switch (status) {
    case "pending":
      return "waiting";
    case "running":
      return "running";
    case "exited":
      return exit_code === 0 ? "done" : "failed";
    case "released":
      return exit_code === null || exit_code === 0 ? "done" : "failed";
    case "failed":
    case "denied":
      return status;
    default:
      return "cancelled";
  }
}

/** All steps below these, and these. */
export function flattenSteps(steps: Iterable<Step>): Step[] {
  return [...steps].flatMap((step) => [step, ...flattenSteps(step.children)]);
}
