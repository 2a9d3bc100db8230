import { useEffect, useMemo, useRef, useState } from "react";

import { OpenFileContext } from "../markdown";
import { PermissionCard, QuestionCard } from "../permission";
import type { Message, SessionState, Rows, RunChanges, SessionItem } from "../protocol";
import { Boundary } from "../ui/Boundary";
import { plural } from "../ui/format";
import { Announcer } from "./Announcer";
import type { Bridge } from "./bridge";
import { EndView } from "./EndView";
import { NoticeView } from "./NoticeView";
import { ItemBuilder, type Item, type OpenState, type ExpandableItem } from "./items";
import { TextView, ThoughtView, UserView } from "./MessageViews";
import { GroupView, StepView } from "./StepView";
import {
  ConversationContext,
  RunChangesContext,
  useConversation,
  type ProblemAction,
  type ConversationContextValue,
} from "./context";
import { useItemNavigation } from "./useItemNavigation";
import { useEvent } from "../ui/useEvent";
import { useFollowScroll } from "./useFollowScroll";
import "./shared.css";
import "./conversation.css";

export interface ConversationProps {
  bridge: Bridge;
  session: SessionItem;
  rows: Rows;
  live: SessionState;
  /** The runs that changed files. */
  changes?: readonly RunChanges[];
  /** There are older rows, which `onHistory` asks for. */
  more: boolean;
  /** Changes when the server sent all rows again; the rows that are read may then be among older ones. */
  snapshotVersion?: number;
  onHistory: () => Promise<unknown>;
  /** Called with true while the reader is away from the end and the loaded rows must stay. */
  onHold?: (isHeld: boolean) => void;
  /** The row to show, as the address has it: `m-<id>`. */
  anchor?: string | undefined;
  onOpenFile: (path: string, line: number | null) => void;
  onShowChanges: (runId: string) => void;
  onAction: (action: ProblemAction) => void;
}

/** The conversation of a session: messages, steps and requests. */
export function Conversation(props: ConversationProps) {
  const { bridge } = props;
  const { id: sessionId, cwd: workspace } = props.session;
  const onOpenFile = useEvent(props.onOpenFile);
  const onShowChanges = useEvent(props.onShowChanges);
  const onAction = useEvent(props.onAction);
  const shownError = isErrorShownAbove(props.live) ? (props.live.failure?.message ?? null) : null;
  const [loaded, setLoaded] = useState<ReadonlyMap<string, Message>>(new Map());
  const onLoaded = useEvent((message: Message) =>
    setLoaded((before) => new Map(before).set(loadedKey(sessionId, message), message)),
  );
  const context = useMemo<ConversationContextValue>(
    () => ({ bridge, sessionId, workspace, shownError, onOpenFile, onShowChanges, onAction, onLoaded }),
    [bridge, sessionId, workspace, shownError, onOpenFile, onShowChanges, onAction, onLoaded],
  );
  const rows = useMemo(() => withLoadedMessages(sessionId, props.rows, loaded), [sessionId, props.rows, loaded]);
  const { changes } = props;
  const runChanges = useMemo(() => new Map(changes?.map((run) => [run.run_id, run])), [changes]);
  return (
    <ConversationContext value={context}>
      <RunChangesContext value={runChanges}>
        <OpenFileContext value={onOpenFile}>
          {/* Scroll position and expanded items belong to one session. */}
          <List key={sessionId} {...props} rows={rows} />
          <Announcer key={`announcer-${sessionId}`} rows={props.rows} />
        </OpenFileContext>
      </RunChangesContext>
    </ConversationContext>
  );
}

/** The rows with what was loaded of messages that are too long to be sent as a whole. */
export function withLoadedMessages(sessionId: string, rows: Rows, loaded: ReadonlyMap<string, Message>): Rows {
  if (loaded.size === 0) return rows;
  const messages = rows.messages.map((message) => {
    const longer = message.shortened ? loaded.get(loadedKey(sessionId, message)) : undefined;
    return longer?.text.startsWith(message.text) ? longer : message;
  });
  return { ...rows, messages };
}

/** Ids of rows are unique within their session only. */
export function loadedKey(sessionId: string, message: Message): string {
  return `${sessionId} ${message.id}`;
}

const UNSHOWN = "This part of the conversation cannot be shown. `dragoman sessions show` has it.";

function List({ session, rows, live, more, snapshotVersion = 0, onHistory, onHold, anchor }: ConversationProps) {
  const [opened, setOpened] = useState<OpenState>(new Map());
  const items = useItems(rows, opened, live);
  const { viewRef, list, unseen, isAway, scrollToEnd, hold } = useFollowScroll({
    sessionId: session.id,
    items,
    more,
    snapshotVersion,
    onHistory,
    onLeave: () => onHold?.(true),
  });
  const toggle = useEvent((item: ExpandableItem) => {
    hold(item.key);
    setOpened((before) => new Map(before).set(item.key, !item.open));
  });
  useItemNavigation(items, list, toggle);
  const go = useEvent((at: number) => {
    hold();
    list.scrollToIndex(at, { align: "start" });
  });
  const { target, seeking } = useAnchor(anchor, items, more, onHistory, go);
  useHoldRows(isAway || seeking, onHold);
  return (
    <div className="conversation">
      <div ref={viewRef} className="timeline" role="log" aria-live="off" aria-label="Conversation" tabIndex={0}>
        {items.length === 0 && <p className="timeline-empty">No messages yet. Start with a prompt.</p>}
        <div className="timeline-all" style={{ height: list.getTotalSize() }}>
          {more && (
            <button type="button" className="small-button timeline-more" onClick={() => void onHistory()}>
              Load earlier messages
            </button>
          )}
          {list.getVirtualItems().map(({ index, start, key }) => {
            const item = items[index];
            return item ? (
              <div
                key={key}
                ref={list.measureElement}
                className={item.key === target ? "timeline-item aimed" : "timeline-item"}
                style={{ transform: `translateY(${start}px)` }}
                data-index={index}
                data-key={item.key}
                data-kind={item.kind}
                id={`m-${item.key}`}
                tabIndex={-1}
              >
                <Boundary place={item.key} fallback={<p className="soft">{UNSHOWN}</p>}>
                  <ItemView item={item} toggle={toggle} />
                </Boundary>
              </div>
            ) : null;
          })}
        </div>
      </div>
      {unseen !== null && (
        <button type="button" className="to-end" onClick={scrollToEnd}>
          ↓ {unseen > 0 ? `${unseen} new` : "Jump to the end"}
          <span className="unseen">{unseen > 0 ? `${plural(unseen, "item")} below` : ""}</span>
        </button>
      )}
    </div>
  );
}

/** True if the notice above the conversation shows the agent's error; the last run then does not repeat it. */
function isErrorShownAbove(live: SessionState): boolean {
  return live.connection !== "connected";
}

function useItems(rows: Rows, opened: OpenState, live: SessionState): readonly Item[] {
  const [builder] = useState(() => new ItemBuilder());
  const problem = isErrorShownAbove(live) ? null : live.failure;
  return useMemo(() => builder.of(rows, opened, problem), [builder, rows, opened, problem]);
}

/** Scrolls to the row that the address names, and loads older rows until it is there. */
function useAnchor(
  anchor: string | undefined,
  items: readonly Item[],
  more: boolean,
  onHistory: () => Promise<unknown>,
  go: (at: number) => void,
): { target: string | null; seeking: boolean } {
  const [target, setTarget] = useState<string | null>(null);
  const done = useRef<string | undefined>(undefined);
  const asking = useRef(false);
  const key = anchor?.startsWith("m-") ? anchor.slice(2) : undefined;
  useEffect(() => {
    if (key === undefined || done.current === key || items.length === 0) return;
    const at = items.findIndex((item) => item.key === key);
    if (at >= 0) {
      done.current = key;
      setTarget(key);
      go(at);
    } else if (more && !asking.current) {
      asking.current = true;
      void onHistory().finally(() => {
        asking.current = false;
      });
    }
  }, [key, items, more, onHistory, go]);
  return { target, seeking: key !== undefined && key !== target && more };
}

function useHoldRows(isHeld: boolean, onHold: ((isHeld: boolean) => void) | undefined): void {
  const tell = useEvent((now: boolean) => onHold?.(now));
  useEffect(() => {
    tell(isHeld);
    return () => tell(false);
  }, [isHeld, tell]);
}

function ItemView({ item, toggle }: { item: Item; toggle: (item: ExpandableItem) => void }) {
  const { bridge, sessionId, workspace, onOpenFile } = useConversation();
  const onToggle = useEvent(() => {
    if ("open" in item) toggle(item);
  });
  switch (item.kind) {
    case "user":
      return <UserView item={item} onToggle={onToggle} />;
    case "text":
      return <TextView item={item} />;
    case "thought":
      return <ThoughtView item={item} onToggle={onToggle} />;
    case "step":
      return <StepView item={item} onToggle={onToggle} />;
    case "group":
      return <GroupView item={item} onToggle={onToggle} />;
    case "permission":
      return (
        <PermissionCard
          bridge={bridge}
          sessionId={sessionId}
          workspace={workspace}
          permission={item.permission}
          keys={item.keys}
          onOpenFile={onOpenFile}
        />
      );
    case "question":
      return <QuestionCard bridge={bridge} sessionId={sessionId} question={item.question} />;
    case "notice":
      return <NoticeView item={item} onToggle={onToggle} />;
    case "end":
      return <EndView item={item} />;
  }
}
