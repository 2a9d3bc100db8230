import { useId, type KeyboardEvent } from "react";

import type { Bridge } from "../conversation/bridge";
import { OpenFileContext } from "../markdown";
import type { Live, Rows, SessionItem, State } from "../protocol";
import { IconButton } from "../ui/Button";
import { ChangesTab } from "./ChangesTab";
import { isOpen, shownTab, tabsOf } from "./contents";
import { DetailsTab } from "./DetailsTab";
import { FileTab } from "./FileTab";
import { PlanView } from "./PlanView";
import { Resizer, useWidth } from "./Resizer";
import { TerminalsTab } from "./TerminalsTab";
import type { Panel, Tab } from "./usePanel";
import "../conversation/shared.css";
import "./panel.css";

export interface SidePanelProps {
  bridge: Bridge;
  session: SessionItem;
  rows: Rows;
  live: Live;
  state: State;
  panel: Panel;
  /** On a phone it is a view of its own: always there, as wide as the screen, and nothing to close. */
  whole?: boolean;
}

const NAMES: Readonly<Record<Tab, string>> = {
  changes: "Changes",
  plan: "Plan",
  terminals: "Terminals",
  file: "File",
  details: "Details",
};

/** Beside the conversation: what it changed, plans and runs. Not there when there is nothing to show. */
export function SidePanel(props: SidePanelProps) {
  const { rows, panel, whole = false } = props;
  const id = useId();
  const width = useWidth();
  if (!whole && !isOpen(rows, panel)) return null;
  const tabs = tabsOf(rows, panel);
  const tab = shownTab(tabs, panel.tab);
  const keys = (event: KeyboardEvent) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const next = tabs[(tabs.indexOf(tab) + by + tabs.length) % tabs.length] ?? tab;
    panel.choose(next);
    document.getElementById(`${id}-${next}`)?.focus();
  };
  return (
    <aside
      className={whole ? "panel whole" : "panel"}
      aria-label="Beside the conversation"
      style={whole ? undefined : { width: width.now }}
    >
      <h2 className="unseen">Beside the conversation</h2>
      {!whole && <Resizer width={width} />}
      <div className="panel-head">
        <div role="tablist" aria-label="What is shown" className="panel-tabs" onKeyDown={keys}>
          {tabs.map((one) => (
            <button
              key={one}
              type="button"
              role="tab"
              id={`${id}-${one}`}
              aria-selected={one === tab}
              aria-controls={`${id}-shown`}
              tabIndex={one === tab ? 0 : -1}
              onClick={() => panel.choose(one)}
            >
              {NAMES[one]}
            </button>
          ))}
        </div>
        {!whole && <IconButton icon="close" label="Close the panel" onClick={() => panel.setOpen(false)} />}
      </div>
      <div role="tabpanel" id={`${id}-shown`} aria-labelledby={`${id}-${tab}`} className="panel-shown" tabIndex={0}>
        <OpenFileContext value={panel.openFile}>
          <Shown {...props} tab={tab} />
        </OpenFileContext>
      </div>
    </aside>
  );
}

function Shown({ tab, bridge, session, rows, live, state, panel }: SidePanelProps & { tab: Tab }) {
  switch (tab) {
    case "changes":
      return (
        <ChangesTab
          rows={rows}
          workspace={session.cwd}
          runId={panel.runId}
          onAll={() => panel.showChanges(null)}
          onOpenFile={panel.openFile}
        />
      );
    case "plan":
      return rows.plans.map((plan) => <PlanView key={plan.id} plan={plan} />);
    case "terminals":
      return <TerminalsTab bridge={bridge} sessionId={session.id} terminals={rows.terminals} />;
    case "file":
      return (
        panel.file && (
          <FileTab
            key={`${panel.file.path}:${panel.file.line}`}
            bridge={bridge}
            sessionId={session.id}
            workspace={session.cwd}
            file={panel.file}
          />
        )
      );
    case "details":
      return <DetailsTab session={session} live={live} state={state} />;
  }
}
