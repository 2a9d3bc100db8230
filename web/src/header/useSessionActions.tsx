// The actions of a session in the order of its menu, without those that the agent does not support.

import { useState } from "react";
import type { ReactNode } from "react";

import { copyText } from "../markdown/clipboard";
import type { AgentCapabilities, ExportedSession, SessionState, SessionItem } from "../protocol";
import { noticeOf, useAttempt, useNotify } from "../notice/notices";
import { formatRoute, navigate } from "../route";
import { isAgentFailure } from "../socket/requests";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import type { MenuAction } from "../ui/Menu";
import { sessionTitle } from "../ui/format";

type ActionConditions = Pick<SessionState, "connection" | "status" | "can_resume"> & {
  capabilities: Pick<AgentCapabilities, "fork" | "load" | "resume">;
};
export type ActionName =
  | "stop"
  | "continue"
  | "rename"
  | "link"
  | "fork"
  | "export"
  | "jsonl"
  | "frames"
  | "restart"
  | "reload"
  | "close"
  | "delete";

/** The actions that are available now; the menu, the palette and the notice agree by it. Pure. */
export function availableActions({
  connection,
  status,
  can_resume,
  capabilities,
}: ActionConditions): readonly ActionName[] {
  const open = connection === "connected" || connection === "starting";
  const failed = connection === "disconnected" || connection === "error";
  const dead = connection === "none" || connection === "watched" || failed;
  const can: Record<ActionName, boolean> = {
    stop: connection === "connected" && (status === "running" || status === "waiting"),
    continue: dead && can_resume,
    rename: true,
    link: true,
    fork: open && capabilities.fork,
    export: true,
    jsonl: true,
    frames: true,
    restart: open || failed,
    reload: (open && (capabilities.load || capabilities.resume)) || (failed && can_resume),
    close: open,
    delete: connection !== "elsewhere",
  };
  return (Object.keys(can) as ActionName[]).filter((name) => can[name]);
}

const LABELS: Record<ActionName, [label: string, description?: string]> = {
  stop: ["Stop", "Stop the current run"],
  continue: ["Continue", "Start the agent and resume the conversation"],
  rename: ["Rename"],
  link: ["Copy link"],
  fork: ["Fork", "Start a second session from this point"],
  export: ["Export as Markdown"],
  jsonl: ["Export as JSON lines", "Every frame, as it was sent"],
  frames: ["Diagnostics", "Frames between Dragoman and the agent"],
  restart: ["Restart", "A new agent process that does not remember this conversation"],
  reload: ["Restart and reload", "A new agent process that loads this conversation"],
  close: ["Close", "Stop the agent and keep the conversation"],
  delete: ["Delete…"],
};

export interface SessionActions {
  items: readonly MenuAction[];
  /** Runs an action by its name, if it is available. */
  run: (name: ActionName) => void;
  /** True while the title is being edited. */
  renaming: boolean;
  setRenaming: (renaming: boolean) => void;
  /** To be put into the view: the question before something is deleted. */
  dialog: ReactNode;
}

export function useSessionActions(session: SessionItem, live: SessionState): SessionActions {
  const ask = useRequest();
  const attempt = useAttempt();
  const notify = useNotify();
  const [deleting, setDeleting] = useState(false);
  const [renaming, setRenaming] = useState(false);
  const target = { session_id: session.id };

  const handlers: Record<ActionName, () => Promise<void> | void> = {
    stop: async () => void (await attempt(ask("session.cancel", target), "The run was not stopped")),
    continue: () => start(ask("session.resume", target), "The session was not continued"),
    restart: () => start(ask("session.restart", target), "The agent was not restarted"),
    reload: () => start(ask("session.restart", { ...target, reload: true }), "The agent was not restarted"),
    rename: () => setRenaming(true),
    link: async () => {
      const copied = await copyText(location.origin + formatRoute({ view: "session", id: session.id }));
      notify(
        copied ? { tone: "good", text: "Link copied." } : { tone: "bad", text: "The browser did not allow copying." },
      );
    },
    fork: () => open(ask("session.fork", target), "The session was not forked"),
    export: () => save(ask("session.export", { ...target, format: "markdown" })),
    jsonl: () => save(ask("session.export", { ...target, format: "jsonl" })),
    frames: () => navigate({ view: "settings", tab: "diagnostics", session: session.id }),
    close: async () => {
      const done = await attempt(ask("session.close", target), "The session was not closed");
      if (done !== null) notify({ tone: "good", text: "Closed. The conversation is kept." });
    },
    delete: () => setDeleting(true),
  };
  const open = async (opened: Promise<{ session_id: string }>, what: string) => {
    const done = await attempt(opened, what);
    if (done !== null && done.session_id !== session.id) navigate({ view: "session", id: done.session_id });
  };
  const start = async (opened: Promise<{ session_id: string }>, what: string) => {
    try {
      await opened;
    } catch (problem) {
      if (!isAgentFailure(problem)) notify(noticeOf(problem, what));
    }
  };
  const save = async (exported: Promise<ExportedSession>) => {
    const file = await attempt(exported, "The session was not exported");
    if (file !== null) download(file);
  };
  const forget = async () => {
    setDeleting(false);
    const done = await attempt(ask("session.delete", target), "The session was not deleted");
    if (done === null) return;
    notify({ tone: "good", text: `Deleted “${sessionTitle(session)}”.` });
    navigate({ view: "home" }, "replace");
  };

  const names = availableActions(live);
  return {
    items: names.map((name) => ({
      id: name,
      label: LABELS[name][0],
      description: LABELS[name][1] ?? null,
      danger: name === "delete",
      act: () => void handlers[name](),
    })),
    run: (name) => {
      if (names.includes(name)) void handlers[name]();
    },
    renaming,
    setRenaming,
    dialog: deleting && (
      <Dialog title="Delete this session?" onClose={() => setDeleting(false)}>
        <p>
          This deletes “{sessionTitle(session)}” and its history from Dragoman. Files that the agent changed stay as
          they are.
        </p>
        <div className="buttons">
          <Button look="danger" onClick={() => void forget()}>
            Delete
          </Button>
          <Button onClick={() => setDeleting(false)}>Cancel</Button>
        </div>
      </Dialog>
    ),
  };
}

function download(file: ExportedSession): void {
  const url = URL.createObjectURL(new Blob([file.text], { type: file.mime_type }));
  const link = document.createElement("a");
  link.href = url;
  link.download = file.file_name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
