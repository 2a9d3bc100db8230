import { formatUsage } from "../conversation/format";
import { useSeconds } from "../conversation/useSecond";
import type { SessionState, Rows, SessionDetails } from "../protocol";
import { contextFraction, contextSizes, statusText } from "./status";

interface Props {
  live: SessionState;
  rows: Rows;
  state: SessionDetails;
  workspace: string;
}

/** The line below the composer: the agent's activity, context usage and cost. */
export function StatusLine({ live, rows, state, workspace }: Props) {
  const now = useSeconds(live.status === "running");
  const { usage } = state;
  const used = contextFraction(usage);
  return (
    <p className="status-line">
      <span className="status-words" data-status={live.status}>
        {statusText(live, rows, now, workspace)}
      </span>
      {used === null ? (
        <span>context not reported</span>
      ) : (
        <span className="context" title={contextSizes(usage)}>
          context
          <meter min={0} max={1} high={0.8} value={used} aria-label="Context in use" />
          {Math.round(used * 100)} %
        </span>
      )}
      <span>{formatUsage(usage).cost}</span>
    </p>
  );
}
