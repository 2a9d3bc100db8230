import type { SessionState } from "./state";
import { STATE_LABELS } from "./state";

/** The state of a session. Each has its own shape, so that it does not depend on colour; screen readers get the word. */
export function StateDot({ state }: { state: SessionState }) {
  return (
    <span className={`state-dot ${state}`} role="img" aria-label={STATE_LABELS[state]} title={STATE_LABELS[state]}>
      <svg viewBox="0 0 12 12" width="12" height="12" aria-hidden="true">
        {SHAPES[state]}
      </svg>
    </span>
  );
}

const SHAPES = {
  waiting: <path d="M6 0.5 11.5 6 6 11.5 0.5 6z" fill="currentColor" />,
  running: <circle cx="6" cy="6" r="4" fill="currentColor" />,
  starting: <circle cx="6" cy="6" r="4" fill="none" stroke="currentColor" strokeWidth="1.5" strokeDasharray="3 2" />,
  idle: <circle cx="6" cy="6" r="3.5" fill="none" stroke="currentColor" strokeWidth="1.5" />,
  interrupted: <path d="M6 2a4 4 0 1 0 0 8 4 4 0 0 0 0-8M4 6h4" fill="none" stroke="currentColor" strokeWidth="1.5" />,
  error: <path d="m2.5 2.5 7 7m0-7-7 7" stroke="currentColor" strokeWidth="2" strokeLinecap="round" />,
  disconnected: (
    <path
      d="M6 1.8a4.2 4.2 0 1 0 0 8.4 4.2 4.2 0 0 0 0-8.4M3 9l6-6"
      fill="none"
      stroke="currentColor"
      strokeWidth="1.5"
    />
  ),
};
