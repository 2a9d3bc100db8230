// The agent's activity in words, and how full its context is. Pure.

import { commandLine } from "../terminal/command";
import type { SessionState, Rows, Usage } from "../protocol";
import { displayTitle } from "../conversation/paths";
import { formatCount, formatDuration } from "../conversation/format";
import { STATE_LABELS } from "../ui/state";

/** `now` is in seconds. Errors are not repeated here: the notice above the conversation and the end of the run show
 * them. */
export function statusText(live: SessionState, rows: Rows, now: number, workspace: string): string {
  const why = live.reason && live.reason !== live.failure?.message ? `: ${live.reason}` : "";
  switch (live.connection) {
    case "none":
      return live.can_resume ? "not connected; sending resumes the session" : `not connected${why}`;
    case "starting":
      return `starting the agent${why}`;
    case "disconnected":
      return "disconnected";
    case "error":
      return "not started";
    case "elsewhere":
      return `open in another process${why}`;
    case "watched":
      return `elsewhere: ${activityText(rows, now, workspace)}`;
    case "connected":
      break;
  }
  if (live.status === "waiting") return STATE_LABELS.waiting;
  if (live.status === "error") return `${STATE_LABELS.error}${why}`;
  if (live.status === "running") return activityText(rows, now, workspace);
  // The words of the header: a session has one state.
  return `${rows.runs.at(-1)?.status === "error" ? STATE_LABELS.error : STATE_LABELS.idle}${why}`;
}

function activityText(rows: Rows, now: number, workspace: string): string {
  const run = rows.runs.at(-1);
  if (run?.cancel_requested) return "stopping";
  const since = (time: number) => (now - time >= 2 ? `, ${formatDuration(Math.floor(now - time))}` : "");
  const terminal = rows.terminals.findLast((one) => one.status === "running");
  if (terminal) return `running ${truncateLine(commandLine(terminal))}${since(terminal.time)}`;
  const message = rows.messages.at(-1);
  const open = rows.tool_calls.filter((one) => one.ended_time === null && one.run_id === run?.id);
  const call =
    open.findLast((one) => one.status === "in_progress") ??
    // Claude Code never reports `in_progress`; a later message shows that the call is over.
    open.findLast((one) => one.status === "pending" && one.position > (message?.position ?? 0));
  if (call) {
    const title = displayTitle(call.title, call.kind, workspace) || call.kind;
    return `${call.kind === "execute" ? "running " : ""}${truncateLine(title)}${since(call.time)}`;
  }
  if (message && !message.ended && message.kind !== "user")
    return message.kind === "thought" ? `thinking${since(message.time)}` : "writing";
  const latest = Math.max(run?.time ?? now, message?.time ?? 0, rows.tool_calls.at(-1)?.ended_time ?? 0);
  return `waiting for the model${since(latest)}`;
}

function truncateLine(text: string): string {
  const line = text.split("\n", 1)[0] ?? "";
  return line.length > 60 ? `${line.slice(0, 59)}…` : line;
}

/** The used fraction of the context; null if it was not reported or is implausible. */
export function contextFraction({ context_used, context_size }: Usage): number | null {
  if (context_used === null || context_size === null || context_size <= 0) return null;
  // Some agents report all tokens they ever used; that is no part of a context.
  return context_used > context_size ? null : context_used / context_size;
}

/** `43 k of 200 k tokens`; `of about` if the size is a guess. */
export function contextSizes({ context_used, context_size, is_context_size_guessed }: Usage): string {
  const about = is_context_size_guessed ? "about " : "";
  return `${formatCount(context_used ?? 0)} of ${about}${formatCount(context_size ?? 0)} tokens`;
}
