import { useState } from "react";

import { Composer } from "../composer";
import { Conversation } from "../conversation";
import type { ProblemAction } from "../conversation";
import { useEvent } from "../ui/useEvent";
import { Header } from "../header/Header";
import { useSessionActions } from "../header/useSessionActions";
import { useSettings } from "../header/useSettings";
import { LoginDialog } from "../login/LoginDialog";
import { useAttempt } from "../notice/notices";
import { useViewCommands } from "../palette/viewCommands";
import { PlanStrip, SidePanel, isPanelOpen, tabsOf, usePanel, useSessionChanges, type Tab } from "../panel";
import { useIsPhone, useIsNarrow } from "../phone/mediaQueries";
import { navigate } from "../route";
import { useRequest, useClient, useHello, useStore } from "../store/client";
import type { ConversationState } from "../store/conversation";
import { Link } from "../ui/Link";
import { SessionNotice } from "./SessionNotice";
import { sessionCommands } from "./commands";
import "./session.css";

const MAX_HEADER_SETTINGS = 3; // settings that fit beside each other

interface SessionPlace {
  anchor: string | undefined;
  /** On a phone: show the side panel instead of the conversation. */
  beside: boolean;
}

/** One session, which the page follows while it is shown. */
export function SessionView({ id, ...place }: SessionPlace & { id: string }) {
  const conversation = useStore((all) => all.conversations.get(id)) ?? null;
  const gone = useStore((all) => all.gone.get(id)) ?? null;
  if (gone !== null) {
    return (
      <div className="session-gone" role="alert">
        <h1>Session not found</h1>
        <p>{gone}</p>
        <Link to={{ view: "home" }} className="button">
          Back to all sessions
        </Link>
      </div>
    );
  }
  if (conversation === null) return <p className="session-gone">Loading…</p>;
  return <SessionContent key={id} conversation={conversation} {...place} />;
}

function SessionContent({ conversation, anchor, beside }: SessionPlace & { conversation: ConversationState }) {
  const { socket, store } = useClient();
  const editable = useHello()?.scope !== "view";
  const phone = useIsPhone();
  const tight = useIsNarrow();
  const { session, state: live, details: state, rows } = conversation;
  const panel = usePanel(session.id);
  const actions = useSessionActions(session, live);
  const loadOlder = useOlder(conversation);
  const changes = useSessionChanges(socket, session.id, rows, conversation);
  const open = isPanelOpen(rows, panel, changes);
  const [loggingIn, setLoggingIn] = useState(false);
  const help = useEvent((action: ProblemAction) => {
    if (action === "restart") actions.run("restart");
    else if (action === "restart_and_reload") actions.run("reload");
    else if (action === "login") setLoggingIn(true);
    else navigate({ view: "settings", tab: "agents" });
  });
  // On a phone the panel is a view of its own.
  const goBeside = () => {
    if (phone) navigate({ view: "session", id: session.id, beside: true });
  };
  const openFile = useEvent((path: string, line: number | null) => {
    panel.openFile(path, line);
    goBeside();
  });
  const showChanges = useEvent((runId: string) => {
    panel.showChanges(runId);
    goBeside();
  });
  const showTab = (tab: Tab) => {
    if (tab === "changes") panel.showChanges(null);
    else panel.choose(tab);
    goBeside();
  };
  const [settings, choose] = useSettings(session.id, state.settings);
  const changeable = editable && live.connection === "connected";
  useViewCommands(
    sessionCommands({
      actions: editable ? actions.items : [],
      settings: changeable ? settings : [],
      onChoose: choose,
      tabs: tabsOf(rows, panel, changes),
      onTab: showTab,
    }),
  );
  return (
    <div className="session">
      <div className="session-talk" hidden={phone && beside}>
        <Header
          session={session}
          live={live}
          settings={settings}
          changeable={changeable}
          onChoose={choose}
          actions={actions}
          editable={editable}
          narrow={tight || open}
          room={phone || (tight && open) ? 0 : MAX_HEADER_SETTINGS}
          beside={phone ? null : { open, toggle: () => panel.setOpen(!open) }}
        />
        <SessionNotice session={session} live={live} actions={actions} editable={editable} onHelp={help} />
        <h2 className="unseen">Conversation</h2>
        <Conversation
          bridge={socket}
          session={session}
          rows={rows}
          live={live}
          changes={changes.runs}
          more={conversation.more}
          snapshotVersion={conversation.snapshotVersion}
          onHistory={loadOlder}
          onHold={(isHeld) => store.hold(session.id, isHeld)}
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
          loaded={conversation}
          changes={changes}
          whole={phone}
        />
      )}
    </div>
  );
}

/** Loads the rows before those that are here. */
function useOlder({ session, before }: ConversationState): () => Promise<void> {
  const { store } = useClient();
  const ask = useRequest();
  const attempt = useAttempt();
  return useEvent(async () => {
    const history = await attempt(
      ask("session.history", { session_id: session.id, before }),
      "Earlier messages were not loaded",
    );
    if (history !== null) store.addOlder(session.id, history);
  });
}
