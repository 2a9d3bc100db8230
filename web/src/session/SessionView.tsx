import { useEffect, useState } from "react";

import { Composer } from "../composer";
import { Conversation } from "../conversation";
import type { Action } from "../conversation";
import { useSame } from "../conversation/useSame";
import { Header } from "../header/Header";
import { useSessionActions } from "../header/useSessionActions";
import { LoginDialog } from "../login/LoginDialog";
import { useAttempt } from "../notice/notices";
import { PlanStrip, SidePanel, isPanelOpen, usePanel } from "../panel";
import { usePhone } from "../phone/usePhone";
import { navigate } from "../route";
import { useAsk, useClient, useHello, useKnown } from "../store/client";
import type { Conversation as Known } from "../store/conversation";
import { Link } from "../ui/Link";
import { SessionNotice } from "./SessionNotice";
import "./session.css";

interface Place {
  anchor: string | undefined;
  /** On a phone: what is beside the conversation, in its place. */
  beside: boolean;
}

/** One session: followed while it is shown. */
export function SessionView({ id, ...place }: Place & { id: string }) {
  const { store } = useClient();
  useEffect(() => store.follow(id), [store, id]);
  const known = useKnown((all) => all.conversations.get(id)) ?? null;
  const gone = useKnown((all) => all.gone.get(id)) ?? null;
  if (gone !== null) {
    return (
      <div className="session-gone" role="alert">
        <h1>This session is not here</h1>
        <p>{gone}</p>
        <Link to={{ view: "home" }} className="button">
          Back to the others
        </Link>
      </div>
    );
  }
  if (known === null) return <p className="session-gone">Loading…</p>;
  return <Shown key={id} known={known} {...place} />;
}

function Shown({ known, anchor, beside }: Place & { known: Known }) {
  const { socket } = useClient();
  const editable = useHello()?.scope !== "view";
  const phone = usePhone();
  const { session, live, state, rows } = known;
  const panel = usePanel(session.id);
  const actions = useSessionActions(session, live);
  const loadOlder = useOlder(known);
  const open = isPanelOpen(rows, panel);
  const [loggingIn, setLoggingIn] = useState(false);
  const help = useSame((action: Action) => {
    if (action === "restart") actions.run("restart");
    else if (action === "restart_and_reload") actions.run("reload");
    else if (action === "login") setLoggingIn(true);
    else navigate({ view: "settings", tab: "agents" });
  });
  // On a phone what was opened is in another place, so that one has to go there.
  const openFile = useSame((path: string, line: number | null) => {
    panel.openFile(path, line);
    if (phone) navigate({ view: "session", id: session.id, beside: true });
  });
  const showChanges = useSame((runId: string) => {
    panel.showChanges(runId);
    if (phone) navigate({ view: "session", id: session.id, beside: true });
  });
  return (
    <div className="session">
      <div className="session-talk" hidden={phone && beside}>
        <Header
          session={session}
          live={live}
          state={state}
          actions={actions}
          editable={editable}
          narrow={phone || open}
          beside={phone ? null : { open, toggle: () => panel.setOpen(!open) }}
        />
        <SessionNotice session={session} live={live} actions={actions} editable={editable} onHelp={help} />
        <h2 className="unseen">Conversation</h2>
        <Conversation
          bridge={socket}
          session={session}
          rows={rows}
          live={live}
          more={known.more}
          onHistory={loadOlder}
          anchor={anchor}
          onOpenFile={openFile}
          onShowChanges={showChanges}
          onAction={help}
        />
        <PlanStrip plans={rows.plans} working={live.status !== "idle"} />
        <Composer bridge={socket} session={session} live={live} state={state} rows={rows} allowed={editable} />
      </div>
      {loggingIn && (
        <LoginDialog agent={session.agent} onClose={() => setLoggingIn(false)} onDone={() => actions.run("reload")} />
      )}
      {(!phone || beside) && (
        <SidePanel
          bridge={socket}
          session={session}
          rows={rows}
          live={live}
          state={state}
          panel={panel}
          whole={phone}
        />
      )}
    </div>
  );
}

/** Loads the rows before those that are here. */
function useOlder({ session, before }: Known): () => Promise<void> {
  const { store } = useClient();
  const ask = useAsk();
  const attempt = useAttempt();
  return useSame(async () => {
    const history = await attempt(
      ask("session.history", { session_id: session.id, before }),
      "What came before was not loaded",
    );
    if (history !== null) store.addOlder(session.id, history);
  });
}
