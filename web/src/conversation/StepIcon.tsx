// Icons for kinds and states of steps, on the same grid as the page's other icons.

import type { StepState } from "./steps";
import { STEP_STATE_LABELS } from "./format";

const KINDS: Readonly<Record<string, string>> = {
  read: "M4 2.5h5l3 3v8H4zM9 2.5v3h3M6 8.5h4M6 11h4",
  edit: "m10.5 3 2.5 2.5L6 12.5l-3 .5.5-3z",
  delete: "M3.5 4.5h9M6 4.5v-2h4v2M5 4.5l.5 9h5l.5-9",
  move: "M2.5 8h10m-3.5-3.5L12.5 8 9 11.5",
  search: "M7 3a4 4 0 1 0 0 8 4 4 0 0 0 0-8m3 7 3.5 3.5",
  execute: "m3 4.5 3.5 3.5L3 11.5M8 12h5",
  think: "M8 2.5a3.8 3.8 0 0 0-2 7v1.5h4V9.5a3.8 3.8 0 0 0-2-7M6.5 13.5h3",
  fetch: "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11M2.5 8h11M8 2.5c-3.2 3.5-3.2 7.5 0 11 3.2-3.5 3.2-7.5 0-11",
  switch_mode: "M3 5.5h9L9.5 3M13 10.5H4l2.5 2.5",
  agent: "M8 2.5a2.5 2.5 0 1 0 0 5 2.5 2.5 0 0 0 0-5M3 13.5c.5-3 2.5-4.5 5-4.5s4.5 1.5 5 4.5",
  other: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3",
};

export function KindIcon({ kind }: { kind: string }) {
  return <Path d={KINDS[kind] ?? KINDS.other ?? ""} />;
}

const STATES: Readonly<Record<StepState, string>> = {
  waiting: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3M8 5.5V8l2 1.5",
  running: "M8 3a5 5 0 1 1-5 5",
  done: "m3.5 8.5 3 3 6-7",
  failed: "m4.5 4.5 7 7m0-7-7 7",
  denied: "M8 3a5 5 0 1 0 0 10A5 5 0 0 0 8 3M4.5 11.5l7-7",
  cancelled: "M4 8h8",
};

/** The state of a step. Each has its own shape, so that it does not depend on colour; screen readers get the word. */
export function StateIcon({ state }: { state: StepState }) {
  return (
    <span
      className={`step-state ${state}`}
      role="img"
      aria-label={STEP_STATE_LABELS[state]}
      title={STEP_STATE_LABELS[state]}
    >
      <Path d={STATES[state]} />
    </span>
  );
}

function Path({ d }: { d: string }) {
  return (
    <svg className="icon" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true" focusable="false">
      <path d={d} fill="none" stroke="currentColor" strokeWidth="1.5" strokeLinecap="round" strokeLinejoin="round" />
    </svg>
  );
}
