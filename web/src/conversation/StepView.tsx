import { memo, useEffect, useState, type KeyboardEvent } from "react";

import { CountsView, DiffView, totalCounts, useDiffLayout } from "../diff";
import { describeDecision, describePermission } from "../permission";
import type { Terminal, ToolCall } from "../protocol";
import { Output, TerminalView } from "../terminal";
import { plural } from "../ui/format";
import { BlockView } from "./BlockView";
import { summarizeSteps } from "./groups";
import type { Item } from "./items";
import { displayPath, displayTitle } from "./paths";
import { ShowWhole } from "./ShowWhole";
import { KindIcon, StateIcon } from "./StepIcon";
import type { HostCall, Step } from "./steps";
import { useConversation } from "./context";
import { useSeconds } from "./useSecond";
import { formatDuration } from "./format";

/** Right opens a row and left closes it, as in a tree. */
function arrowKeyHandler(open: boolean, toggle: () => void) {
  return (event: KeyboardEvent) => {
    if ((event.key === "ArrowRight" && !open) || (event.key === "ArrowLeft" && open)) {
      event.preventDefault();
      toggle();
    }
  };
}

export const GroupView = memo(function GroupView({
  item,
  onToggle,
}: {
  item: Extract<Item, { kind: "group" }>;
  onToggle: () => void;
}) {
  const { steps, open } = item;
  return (
    <button
      type="button"
      className="fold step-row"
      aria-expanded={open}
      onClick={onToggle}
      onKeyDown={arrowKeyHandler(open, onToggle)}
    >
      <span className="step-title">{summarizeSteps(steps)}</span>
      <StateIcon state="done" />
    </button>
  );
});

export const StepView = memo(function StepView({
  item,
  onToggle,
}: {
  item: Extract<Item, { kind: "step" }>;
  onToggle: () => void;
}) {
  const { step, depth, open, cut } = item;
  const { workspace } = useConversation();
  const state = cut ? "cancelled" : step.state;
  const current = step.children.findLast((child) => child.state === "running");
  return (
    <div className="step" data-depth={Math.min(depth, 4)}>
      <button
        type="button"
        className="fold step-row"
        aria-expanded={open}
        onClick={onToggle}
        onKeyDown={arrowKeyHandler(open, onToggle)}
      >
        <KindIcon kind={step.children.length > 0 ? "agent" : step.kind} />
        <span className="step-title" title={step.title}>
          {displayTitle(step.title, step.kind, workspace)}
          {step.children.length > 0 && (
            <span className="soft">
              {" "}
              · {plural(step.children.length, "call")}
              {current && !open ? `, now ${displayTitle(current.title, current.kind, workspace)}` : ""}
            </span>
          )}
        </span>
        {step.diffs.length > 0 && state !== "denied" && <CountsView {...totalCounts(step.diffs)} />}
        {step.failure !== "" && state === "failed" && <span className="took bad">{step.failure}</span>}
        <StepDuration step={step} running={state === "running"} />
        <StateIcon state={state} />
      </button>
      {open && <StepDetails step={step} />}
    </div>
  );
});

function StepDuration({ step, running }: { step: Step; running: boolean }) {
  const now = useSeconds(running);
  const ended = step.ended ?? (running ? now : null);
  // Without the time that the user took to answer.
  const seconds = ended === null ? null : ended - step.started - step.waited;
  if (seconds === null || seconds < 0.05) return null;
  return <span className="took">{formatDuration(running ? Math.floor(seconds) : seconds)}</span>;
}

function StepDetails({ step }: { step: Step }) {
  const { row } = step;
  return (
    <div className="step-details">
      {row.table === "tool_calls" ? <CallDetails call={row} step={step} /> : <ServedView row={row} />}
      {row.table === "tool_calls" &&
        step.hostCalls
          .filter((one) => !isShownByCall(one, row))
          .map((one) => <ServedView key={one.id} row={one} named />)}
    </div>
  );
}

/** True if the tool call itself shows the host call: a terminal by its id, a file by its diff. */
function isShownByCall(served: HostCall, call: ToolCall): boolean {
  return call.content.some((item) =>
    item.type === "terminal"
      ? served.table === "terminals" && item.terminal_id === served.terminal_id
      : item.type === "diff" && served.table === "file_calls" && served.path === item.path && served.error === null,
  );
}

function CallDetails({ call, step }: { call: ToolCall; step: Step }) {
  const layout = useDiffLayout();
  const { bridge, sessionId, workspace, onOpenFile } = useConversation();
  const [whole, setWhole] = useState<ToolCall | null>(null);
  const shown = whole ?? call;
  const decision = step.permission
    ? describePermission(step.permission)
    : step.hostCalls.map((one) => describeDecision(one)).find((words) => words !== "");
  const plain = call.kind !== "think" && call.kind !== "other" && call.kind !== "fetch";
  const terminals = step.hostCalls.filter((one): one is Terminal => one.table === "terminals");
  // Some agents speak of terminals that are their own: there is nothing to follow.
  const content = shown.content.filter(
    (item) =>
      item.type !== "terminal" ||
      (call.ended_time === null && shown.output === null) ||
      terminals.some((one) => one.terminal_id === item.terminal_id),
  );
  const bare = content.length === 0 && shown.output === null;
  // The workspace itself is no news; other locations are.
  const locations = call.locations.filter((location) => location.path !== workspace);
  return (
    <>
      {decision && <p className="soft">{decision}</p>}
      {locations.length > 0 && (
        <p className="locations">
          {locations.map((location, at) => (
            <button
              key={at}
              type="button"
              className="link-button"
              title={`Open ${location.path} in the panel`}
              onClick={() => onOpenFile(location.path, location.line)}
            >
              {displayPath(location.path, workspace)}
              {location.line !== null && `:${location.line}`}
            </button>
          ))}
        </p>
      )}
      {content.map((item, at) => {
        switch (item.type) {
          case "diff":
            return <DiffView key={at} item={item} layout={layout} limit={12} />;
          case "terminal": {
            const terminal = terminals.find((one) => one.terminal_id === item.terminal_id) ?? null;
            return (
              <TerminalView
                key={at}
                bridge={bridge}
                sessionId={sessionId}
                terminalId={item.terminal_id}
                terminal={terminal}
              />
            );
          }
          default:
            return <BlockView key={at} block={item.content} plain={plain} />;
        }
      })}
      {shown.output !== null && <Output text={shown.output} name={`Output of ${shown.title}`} />}
      {shown.truncated && <p className="soft">Only the end of the output was recorded.</p>}
      {exitText(shown) && <p className="soft">{exitText(shown)}</p>}
      <Raw name="Input" value={shown.raw_input} open={bare} />
      <Raw name="Output" value={shown.raw_output} open={bare} />
      {content.length < shown.content.length && shown.output === null && isEmpty(shown.raw_output) && (
        <p className="soft">The agent did not report the output.</p>
      )}
      {call.shortened && whole === null && (
        <ShowWhole bridge={bridge} sessionId={sessionId} row={call} onWhole={setWhole} />
      )}
    </>
  );
}

function isEmpty(value: unknown): boolean {
  return (
    value === null ||
    value === undefined ||
    value === "" ||
    (typeof value === "object" && Object.keys(value).length === 0)
  );
}

/** A raw value, as the agent sent it. Rendered only while it is open, because it may be long. */
function Raw({ name, value, open }: { name: string; value: unknown; open: boolean }) {
  const [shown, setShown] = useState(open);
  useEffect(() => setShown(open), [open]);
  if (isEmpty(value)) return null;
  return (
    <details className="raw-fold" open={shown} onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>{name}</summary>
      {shown && <Output text={typeof value === "string" ? value : JSON.stringify(value, null, 2)} name={name} />}
    </details>
  );
}

function ServedView({ row, named = false }: { row: HostCall; named?: boolean }) {
  const layout = useDiffLayout();
  const { bridge, sessionId, workspace, onOpenFile } = useConversation();
  const decision = describeDecision(row);
  if (row.table === "terminals") {
    return (
      <>
        {row.cwd !== null && row.cwd !== workspace && <p className="soft">in {row.cwd}</p>}
        {decision && <p className="soft">{decision}</p>}
        <TerminalView bridge={bridge} sessionId={sessionId} terminalId={row.terminal_id} terminal={row} />
        <p className="soft">{exitText(row)}</p>
      </>
    );
  }
  return (
    <>
      <p className="soft">
        {named && (row.operation === "read" ? "Read " : "Wrote ")}
        <button
          type="button"
          className="link-button"
          title={`Open ${row.path} in the panel`}
          onClick={() => onOpenFile(row.path, row.line)}
        >
          {displayPath(row.path, workspace)}
          {row.line !== null && `:${row.line}`}
        </button>
        {row.size !== null && ` · ${plural(row.size, "byte")}`}
        {decision && ` · ${decision}`}
      </p>
      {row.error && <p className="bad">{row.error}</p>}
      {row.diff && <DiffView item={row.diff} layout={layout} limit={12} numbered />}
    </>
  );
}

function exitText({ exit_code, signal }: Terminal | ToolCall): string {
  if (signal !== null) return `ended by ${signal}`;
  return exit_code === null ? "" : `exit code ${exit_code}`;
}
