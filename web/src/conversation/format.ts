// Times, figures and states of a conversation, as people say them. Pure.

import { permissionAnswer } from "../permission/describe";
import type { Run, Usage } from "../protocol";
import type { StepState } from "./steps";
import type { TimelineRow } from "./items";

/** `0.1 s`, `14 s`, `3 min 20 s`, `2 h 5 min` */
export function formatDuration(seconds: number): string {
  if (seconds < 10) return `${Math.max(0, seconds).toFixed(Number.isInteger(seconds) ? 0 : 1)} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

/** `950`, `12.4 k`, `1.2 M` */
export function formatCount(count: number): string {
  if (count < 1000) return String(count);
  if (count < 1_000_000) return `${(count / 1000).toFixed(count < 100_000 ? 1 : 0)} k`;
  return `${(count / 1_000_000).toFixed(1)} M`;
}

export function formatMoney(amount: number, currency: string): string {
  const digits = amount !== 0 && amount < 0.01 ? 4 : 2;
  return moneyFormat(currency, digits)?.format(amount) ?? `${amount.toFixed(digits)} ${currency}`;
}

const formats = new Map<string, Intl.NumberFormat | null>();

/** Cached, because formats are slow to create. Null if the agent's currency is not a currency code. */
function moneyFormat(currency: string, digits: number): Intl.NumberFormat | null {
  const key = `${currency} ${digits}`;
  let format = formats.get(key);
  if (format === undefined) {
    try {
      format = new Intl.NumberFormat(undefined, {
        style: "currency",
        currency,
        minimumFractionDigits: digits,
        maximumFractionDigits: digits,
      });
    } catch {
      format = null;
    }
    formats.set(key, format);
  }
  return format;
}

/** The total number of tokens. Some agents report zero where they do not know; no run uses none. */
export function totalTokens(usage: Usage | null): number | null {
  return (usage?.total_tokens ?? sum(usage?.input_tokens ?? null, usage?.output_tokens ?? null)) || null;
}

/** Tokens and cost of a run or a session as text; figures that were not reported are named as such. */
export function formatUsage(usage: Usage | null): { tokens: string; cost: string } {
  const total = totalTokens(usage);
  const cost = usage?.cost ?? null;
  return {
    tokens: total === null ? "tokens not reported" : `${formatCount(total)} tokens`,
    cost: cost === null ? "cost not reported" : formatMoney(cost.amount, cost.currency),
  };
}

function sum(one: number | null, other: number | null): number | null {
  return one === null && other === null ? null : (one ?? 0) + (other ?? 0);
}

export const STEP_STATE_LABELS: Readonly<Record<StepState, string>> = {
  waiting: "waiting",
  running: "running",
  done: "done",
  failed: "failed",
  denied: "denied",
  cancelled: "cancelled",
};

const STOP_REASONS: Readonly<Record<string, string>> = {
  max_tokens: "The model reached its output limit.",
  max_turn_requests: "The agent reached its request limit for one run.",
  refusal: "The model refused to continue.",
  silent: "The agent ended the run without an answer. It may not know the model, or may not be logged in.",
};

/** The outcome of a run, or null if it needs no words. `name` formats a title. */
export function describeRunEnd(
  run: Run,
  { isSilent, rows }: { readonly isSilent: boolean; readonly rows: readonly TimelineRow[] },
  name: (title: string, kind: string) => string,
): { text: string; bad: boolean } | null {
  const why = run.reason ?? "";
  if (run.status === "cancelled") {
    if (why) return { text: `Stopped: ${why}`, bad: false };
    return { text: (!run.cancel_requested && describeRefusal(rows, name)) || "Stopped", bad: false };
  }
  // An interrupted run is not a failure; the agent's current error is shown elsewhere.
  if (run.status === "interrupted")
    return { text: `Interrupted: ${why || "the agent or the server stopped during the run"}`, bad: false };
  // A stop reason explains more than the status, whether the run counts as failed or not.
  const stop = STOP_REASONS[run.stop_reason ?? ""] ?? STOP_REASONS[why] ?? (isSilent ? STOP_REASONS.silent : undefined);
  if (stop) return { text: stop, bad: true };
  if (run.status !== "error") return null;
  return { text: why && !isAlreadyShown(why, rows) ? `The run failed: ${why}` : "The run failed.", bad: true };
}

/** Seconds that a run waited for the user's answers. Waits at the same time count once. */
export function secondsWaited(rows: readonly TimelineRow[]): number {
  const spans = rows.flatMap((row) => {
    if (row.table !== "permissions" && row.table !== "questions") return [];
    const end = row.table === "permissions" ? row.resolved_time : row.answered_time;
    return row.decided_by === "person" && end !== null ? [{ begin: row.time, end }] : [];
  });
  let seconds = 0;
  let until = 0;
  for (const { begin, end } of spans.sort((one, other) => one.begin - other.begin)) {
    seconds += Math.max(0, end - Math.max(begin, until));
    until = Math.max(until, end);
  }
  return seconds;
}

/** Some agents stop at the first thing that is refused, and call that cancelled. */
function describeRefusal(rows: readonly TimelineRow[], name: (title: string, kind: string) => string): string | null {
  const permission = rows.findLast((row) => row.table === "permissions");
  if (permission === undefined || permissionAnswer(permission) !== "denied") return null;
  const what = permission.title === "" ? "its request" : `“${name(permission.title, permission.kind)}”`;
  const text = permission.decided_by === "person" ? `You denied ${what}` : `${what} was denied`;
  return `${text}, and the agent stopped.`;
}

/** Some agents report an error as a message and then fail with the same text. */
function isAlreadyShown(why: string, rows: readonly TimelineRow[]): boolean {
  const last = rows.findLast(
    (row) => row.table === "notices" || (row.table === "messages" && row.kind === "assistant"),
  );
  const text = last?.table === "notices" ? last.text || last.title : last?.table === "messages" ? last.text : "";
  return text.trim() !== "" && why.endsWith(text.trim());
}
