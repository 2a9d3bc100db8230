import { memo, use } from "react";

import { CountsView } from "../diff";
import { Button } from "../ui/Button";
import { plural } from "../ui/format";
import type { Item } from "./items";
import { displayTitle } from "./paths";
import { RunChangesContext, useConversation, type ProblemAction } from "./context";
import { formatDuration, describeRunEnd, formatUsage, secondsWaited } from "./format";

/** The end of a run: outcome, changes, duration and cost. */
export const EndView = memo(function EndView({ item }: { item: Extract<Item, { kind: "end" }> }) {
  const { run, problem } = item;
  const { workspace, shownError, onShowChanges, onAction } = useConversation();
  const reason = run.reason === shownError ? null : run.reason;
  const end = describeRunEnd({ ...run, reason }, item, (title, kind) => displayTitle(title, kind, workspace));
  const changes = use(RunChangesContext).get(run.id);
  const actions = (problem?.actions ?? []).filter((action): action is ProblemAction => action in LABELS);
  const { tokens, cost } = formatUsage(run.usage);
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
        {run.ended_time !== null && <span>{formatDuration(run.ended_time - run.time - secondsWaited(item.rows))}</span>}
        {changes && (
          <button type="button" className="link-button" onClick={() => onShowChanges(run.id)}>
            {plural(changes.files, "file")} changed
            <CountsView added={changes.added} removed={changes.removed} />
          </button>
        )}
        <span>{tokens}</span>
        {/* Agents report the cost of the session, not of the run. The line below the composer says if none is reported. */}
        {run.usage?.cost && <span>{cost} so far</span>}
      </p>
    </div>
  );
});

const LABELS: Readonly<Record<ProblemAction, string>> = {
  login: "Log in",
  restart: "Restart",
  restart_and_reload: "Restart and reload",
  install: "Install",
  settings: "Settings",
};
