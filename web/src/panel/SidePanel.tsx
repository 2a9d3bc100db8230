import { useId, type KeyboardEvent } from "react";

import type { Bridge } from "../conversation/bridge";
import { OpenFileContext } from "../markdown";
import type { SessionState, Rows, SessionItem, SessionDetails } from "../protocol";
import { IconButton } from "../ui/Button";
import { Icon } from "../ui/Icon";
import { Link } from "../ui/Link";
import { sessionTitle } from "../ui/format";
import { ChangesTab } from "./ChangesTab";
import { isOpen, shownTab, tabsOf, terminalsOf } from "./contents";
import { DetailsTab } from "./DetailsTab";
import { FileTab } from "./FileTab";
import { PlanView } from "./PlanView";
import { Resizer, useWidth } from "./Resizer";
import { TerminalsTab } from "./TerminalsTab";
import { FULLY_LOADED, NO_SESSION_CHANGES, type LoadedRange, type SessionChanges } from "./served";
import type { Panel, Tab } from "./usePanel";
import "../conversation/shared.css";
import "./panel.css";

export interface SidePanelProps {
  bridge: Bridge;
  session: SessionItem;
  rows: Rows;
  live: SessionState;
  state: SessionDetails;
  panel: Panel;
  loaded?: LoadedRange;
  /** The changes of the whole session. */
  changes?: SessionChanges;
  /** On a phone it is a view of its own: always there, as wide as the screen, and nothing to close. */
  whole?: boolean;
}

export const TAB_LABELS: Readonly<Record<Tab, string>> = {
  changes: "Changes",
  plan: "Plan",
  terminals: "Terminals",
  file: "File",
  details: "Details",
};

/** The side panel: changes, plan, terminals, file and details. Not rendered while it is closed. */
export function SidePanel(props: SidePanelProps) {
  const { rows, panel, changes = NO_SESSION_CHANGES, whole = false } = props;
  const id = useId();
  const width = useWidth();
  if (!whole && !isOpen(rows, panel, changes)) return null;
  const tabs = tabsOf(rows, panel, changes);
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
      aria-label="Side panel"
      style={whole ? undefined : { width: width.now }}
    >
      {whole ? <PhoneHeader session={props.session} tab={tab} /> : <h2 className="unseen">Side panel</h2>}
      {!whole && <Resizer width={width} />}
      <div className="panel-head">
        <div role="tablist" aria-label="Panel views" className="panel-tabs" onKeyDown={keys}>
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
              {TAB_LABELS[one]}
            </button>
          ))}
        </div>
        {!whole && <IconButton icon="close" label="Close the panel" onClick={() => panel.setOpen(false)} />}
      </div>
      <div role="tabpanel" id={`${id}-shown`} aria-labelledby={`${id}-${tab}`} className="panel-shown" tabIndex={0}>
        {changes.problem && (
          <p className="bad" role="alert">
            The changes could not be loaded: {changes.problem}
          </p>
        )}
        <OpenFileContext value={panel.openFile}>
          <TabContent {...props} tab={tab} />
        </OpenFileContext>
      </div>
    </aside>
  );
}

/** The panel's header on a phone, with a link back to the conversation. */
function PhoneHeader({ session, tab }: { session: SessionItem; tab: Tab }) {
  return (
    <header className="panel-above">
      <Link
        to={{ view: "session", id: session.id }}
        className="button quiet icon-only"
        aria-label="Back to the conversation"
      >
        <Icon name="back" />
      </Link>
      <div>
        <h1>{TAB_LABELS[tab]}</h1>
        <p>{sessionTitle(session)}</p>
      </div>
    </header>
  );
}

function TabContent(props: SidePanelProps & { tab: Tab }) {
  const { tab, bridge, session, rows, live, state, panel, loaded = FULLY_LOADED, changes = NO_SESSION_CHANGES } = props;
  switch (tab) {
    case "changes":
      return (
        <ChangesTab
          bridge={bridge}
          sessionId={session.id}
          rows={rows}
          loaded={loaded}
          changes={changes}
          workspace={session.cwd}
          runId={panel.runId}
          onAll={() => panel.showChanges(null)}
          onOpenFile={panel.openFile}
        />
      );
    case "plan":
      return rows.plans.map((plan) => <PlanView key={plan.id} plan={plan} />);
    case "terminals":
      return (
        <TerminalsTab
          bridge={bridge}
          sessionId={session.id}
          terminals={terminalsOf(rows, changes)}
          here={rows.terminals}
          more={changes.more_terminals}
        />
      );
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
