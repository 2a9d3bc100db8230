import { memo, useMemo } from "react";

import { changesOf, CountsView, type FileChanges } from "../diff";
import { Button } from "../ui/Button";
import { plural } from "../ui/format";
import type { Item } from "./items";
import { displayTitle } from "./paths";
import { useConversation, type ProblemAction } from "./context";
import type { Segment } from "./timeline";
import { formatDuration, describeRunEnd, formatUsage } from "./format";

/** The end of a run: outcome, changes, duration and cost. */
export const EndView = memo(function EndView({ item }: { item: Extract<Item, { kind: "end" }> }) {
  const { run, segment, problem } = item;
  const { workspace, shownError, onShowChanges, onAction } = useConversation();
  const reason = run.reason === shownError ? null : run.reason;
  const end = describeRunEnd({ ...run, reason }, segment, (title, kind) => displayTitle(title, kind, workspace));
  const changes = useMemo(() => changesOfSegment(segment), [segment]);
  // If the prompt of the run is not loaded, some of its changes are not either.
  const torn = !segment.rows.some((row) => row.table === "messages" && row.kind === "user");
  const actions = (problem?.actions ?? []).filter((action): action is ProblemAction => action in LABELS);
  const { tokens, cost } = formatUsage(run.usage);
  const added = changes.reduce((sum, file) => sum + file.added, 0);
  const removed = changes.reduce((sum, file) => sum + file.removed, 0);
  return (
    <div className="end">
      {end && <p className={end.bad ? "end-words bad" : "end-words"}>{end.text}</p>}
      {end && actions.length > 0 && (
        <p className="buttons">
          {actions.map((action) => (
            <Button key={action} onClick={() => onAction(action)}>
              {LABELS[action]}
            </Button>
          ))}
        </p>
      )}
      <p className="end-line">
        {run.ended_time !== null && <span>{formatDuration(run.ended_time - run.time)}</span>}
        {torn && (
          <button type="button" className="link-button" onClick={() => onShowChanges(run.id)}>
            Show changes
          </button>
        )}
        {!torn && changes.length > 0 && (
          <button type="button" className="link-button" onClick={() => onShowChanges(run.id)}>
            {plural(changes.length, "file")} changed
            <CountsView added={added} removed={removed} />
          </button>
        )}
        <span>{tokens}</span>
        {/* Agents report the cost of the session, not of the run. The line below the composer says if none is reported. */}
        {run.usage?.cost && <span>{cost} so far</span>}
      </p>
    </div>
  );
});

function changesOfSegment({ rows }: Segment): readonly FileChanges[] {
  const tool_calls = rows.filter((row) => row.table === "tool_calls");
  const file_calls = rows.filter((row) => row.table === "file_calls");
  const permissions = rows.filter((row) => row.table === "permissions");
  return changesOf({ tool_calls, file_calls, permissions });
}

const LABELS: Readonly<Record<ProblemAction, string>> = {
  login: "Log in",
  restart: "Restart",
  restart_and_reload: "Restart and reload",
  install: "Install",
  settings: "Settings",
};
