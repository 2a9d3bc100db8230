import { figure, usageWords } from "../conversation/words";
import { useSecond } from "../conversation/useSecond";
import type { Live, Rows, State } from "../protocol";
import { contextUsed, statusWords } from "./status";

interface Props {
  live: Live;
  rows: Rows;
  state: State;
  workspace: string;
}

/** Under the composer: what the agent does now, how full its context is, what it cost. */
export function StatusLine({ live, rows, state, workspace }: Props) {
  const now = useSecond(live.status === "running");
  const { usage } = state;
  const used = contextUsed(usage);
  return (
    <p className="status-line">
      <span className="status-words" data-status={live.status}>
        {statusWords(live, rows, now, workspace)}
      </span>
      {used === null ? (
        <span>context not reported</span>
      ) : (
        <span
          className="context"
          title={`${figure(usage.context_used ?? 0)} of ${figure(usage.context_size ?? 0)} tokens`}
        >
          context
          <meter min={0} max={1} high={0.8} value={used} aria-label="Context in use" />
          {Math.round(used * 100)} %
        </span>
      )}
      <span>{usageWords(usage).cost}</span>
    </p>
  );
}
