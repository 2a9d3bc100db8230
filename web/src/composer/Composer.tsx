import {
  useEffect,
  useId,
  useLayoutEffect,
  useMemo,
  useRef,
  useState,
  type ClipboardEvent,
  type KeyboardEvent,
} from "react";

import type { Bridge } from "../conversation/bridge";
import { notifySent } from "../conversation/promptSent";
import { useEvent } from "../ui/useEvent";
import type { Attachment, SessionState, Rows, SessionItem, SessionDetails } from "../protocol";
import { isAgentFailure, RequestError } from "../socket/requests";
import { Button } from "../ui/Button";
import { AttachButton, Attachments } from "./AttachedFiles";
import { attach, unsupportedAttachments, type InlineAttachment } from "./attachments";
import { complete, triggerAt } from "./completion";
import { saveDraft, mentionedPaths, NO_DRAFT, readDraft, type Draft } from "./draft";
import { sentPrompts, stepHistory } from "./history";
import { QueueList } from "./QueueList";
import { StatusLine } from "./StatusLine";
import { Suggestions } from "./Suggestions";
import { useSuggestions } from "./useSuggestions";
import { useDoubleEscape } from "./useDoubleEscape";
import "../conversation/shared.css";
import "./composer.css";

export interface ComposerProps {
  bridge: Bridge;
  session: SessionItem;
  live: SessionState;
  state: SessionDetails;
  rows: Rows;
  /** False where the token of this browser allows viewing only. */
  allowed?: boolean;
}

/** A prompt on its way to the server, with all that puts it back into the field if it cannot be sent. */
interface Unsent {
  readonly draft: Draft;
  readonly dropped: readonly InlineAttachment[];
  readonly attachments: readonly Attachment[];
  readonly when: "queue" | "now";
}

/** The prompt field. Each session has its own, with its own draft. */
export function Composer(props: ComposerProps) {
  return <ComposerForm key={props.session.id} {...props} />;
}

function ComposerForm({ bridge, session, live, state, rows, allowed = true }: ComposerProps) {
  const area = useRef<HTMLTextAreaElement>(null);
  const list = useId();
  const [draft, setDraft] = useState<Draft>(() => readDraft(session.id));
  const [dropped, setDropped] = useState<readonly InlineAttachment[]>([]);
  const [caret, setCaret] = useState(draft.text.length);
  const [closed, setClosed] = useState<string | null>(null);
  const [chosen, setChosen] = useState(0);
  const [past, setPast] = useState(-1);
  const [problem, setProblem] = useState("");
  const lastSend = useRef<Promise<void>>(Promise.resolve());

  const running = live.status === "running" || live.status === "waiting";
  const trigger = useMemo(() => triggerAt(draft.text, caret), [draft.text, caret]);
  const triggered = trigger && closed !== `${trigger.kind}${trigger.from}` ? trigger : null;
  const suggestions = useSuggestions(bridge, session.id, triggered, state.commands);
  const attachments: readonly Attachment[] = [
    ...mentionedPaths(draft).map((path) => ({ type: "file" as const, path })),
    ...dropped,
  ];
  const refused = unsupportedAttachments(attachments, live);
  const blocker = promptBlocker(live, allowed);
  const ready = draft.text.trim() !== "" && refused.length === 0 && blocker === "";

  const tell = (error: unknown) => setProblem(errorText(error));
  const stop = () => void bridge.request("session.cancel", { session_id: session.id }).catch(tell);
  const armed = useDoubleEscape(running && blocker === "", stop);

  useEffect(() => saveDraft(session.id, draft), [session.id, draft]);
  useAutosize(area, draft.text);
  useDrop((files) => void add(files));

  const write = (text: string, at = text.length, mentions = draft.mentions) => {
    setDraft({ text, mentions });
    setCaret(at);
    setChosen(0);
    requestAnimationFrame(() => area.current?.setSelectionRange(at, at));
  };

  // Prompts leave in the order in which they were written: each waits until the server has taken the one before.
  const send = (when: "queue" | "now") => {
    if (!ready) return;
    const prompt: Unsent = { draft, dropped, attachments, when };
    setProblem("");
    setDraft(NO_DRAFT);
    setDropped([]);
    setPast(-1);
    lastSend.current = lastSend.current.then(() => deliver(prompt));
  };

  const deliver = async ({ draft, dropped, attachments, when }: Unsent) => {
    const open = live.connection === "connected" || live.connection === "starting";
    try {
      const id = open ? session.id : (await bridge.request("session.resume", { session_id: session.id })).session_id;
      notifySent(id);
      await bridge.request("session.prompt", { session_id: id, text: draft.text.trim(), attachments, when });
    } catch (error) {
      // What could not be sent is put back, after anything that was written meanwhile.
      setDraft((now) => ({
        text: now.text === "" ? draft.text : `${now.text}\n\n${draft.text}`,
        mentions: [...now.mentions, ...draft.mentions],
      }));
      setDropped((now) => [...now, ...dropped]);
      if (!open && isAgentFailure(error)) setProblem("Not sent: the agent did not start.");
      else tell(error);
    }
  };

  const take = (value: string) => {
    if (!triggered) return;
    const done = complete(draft.text, triggered, value);
    write(done.text, done.caret, triggered.kind === "file" ? [...draft.mentions, value] : draft.mentions);
  };

  const add = async (files: Iterable<File>) => {
    if (blocker !== "") return;
    for (const file of files) {
      try {
        const made = await attach(file);
        setDropped((before) => [...before, made]);
      } catch (error) {
        tell(error);
      }
    }
  };

  const prompts = useMemo(() => sentPrompts(rows.messages), [rows.messages]);
  const recall = (by: 1 | -1): boolean => {
    const unchanged = past < 0 ? draft.text === "" : draft.text === prompts[past];
    const next = stepHistory(past, by, prompts.length);
    if (!unchanged || next === past) return false;
    setPast(next);
    write(next < 0 ? "" : (prompts[next] ?? ""));
    return true;
  };

  const keys = (event: KeyboardEvent) => {
    if (event.nativeEvent.isComposing) return;
    const count = suggestions.length;
    const used = count > 0 ? suggestionKey(event) : plainKey(event);
    if (used) event.preventDefault();
  };
  const suggestionKey = (event: KeyboardEvent): boolean => {
    const count = suggestions.length;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      setChosen((chosen + (event.key === "ArrowDown" ? 1 : -1) + count) % count);
    } else if (event.key === "Enter" || event.key === "Tab") {
      take(suggestions[chosen]?.value ?? "");
    } else if (event.key === "Escape" && triggered) {
      setClosed(`${triggered.kind}${triggered.from}`);
    } else {
      return false;
    }
    return true;
  };
  const plainKey = (event: KeyboardEvent): boolean => {
    if (event.key === "Enter" && (event.metaKey || event.ctrlKey)) send("now");
    else if (event.key === "Enter" && !event.shiftKey && !hasCoarsePointer()) send("queue");
    else if (event.key === "ArrowUp") return recall(1);
    else if (event.key === "ArrowDown") return recall(-1);
    else return false;
    return true;
  };
  const paste = (event: ClipboardEvent) => {
    if (event.clipboardData.files.length === 0) return;
    event.preventDefault();
    void add(event.clipboardData.files);
  };

  return (
    <section className="composer" aria-label="Prompt">
      <QueueList bridge={bridge} sessionId={session.id} queue={live.queue} onProblem={tell} />
      <div className="composer-box">
        {suggestions.length > 0 && <Suggestions id={list} suggestions={suggestions} chosen={chosen} onTake={take} />}
        <Attachments dropped={dropped} onRemove={(at) => setDropped(dropped.toSpliced(at, 1))} />
        <textarea
          ref={area}
          rows={1}
          aria-label="Message to the agent"
          placeholder={blocker || "Ask a question or give a task. @ for files, / for commands"}
          disabled={blocker !== ""}
          value={draft.text}
          aria-haspopup="listbox"
          aria-controls={suggestions.length > 0 ? list : undefined}
          aria-autocomplete="list"
          aria-activedescendant={suggestions.length > 0 ? `${list}-${chosen}` : undefined}
          onChange={(event) => {
            setDraft({ ...draft, text: event.target.value });
            setCaret(event.target.selectionStart);
            setClosed(null);
            setChosen(0);
          }}
          onSelect={(event) => setCaret(event.currentTarget.selectionStart)}
          onKeyDown={keys}
          onPaste={paste}
        />
        <div className="composer-bar">
          <AttachButton disabled={blocker !== ""} onFiles={(files) => void add(files)} />
          <span className="composer-hint" role="status">
            {armed ? "Press Esc again to stop" : ""}
          </span>
          {running && blocker === "" && (
            <Button onClick={stop} title="Stop the run (Esc twice)">
              <span aria-hidden="true">■</span> Stop
            </Button>
          )}
          {running && ready && (
            <Button
              onClick={() => send("now")}
              title={
                live.capabilities.steering
                  ? "Send into the current run (Ctrl+Enter)"
                  : "Stop the current run, then send (Ctrl+Enter)"
              }
            >
              Send now
            </Button>
          )}
          <Button
            look="primary"
            disabled={!ready}
            onClick={() => send("queue")}
            title={running ? "Send when the current run has ended (Enter)" : "Enter"}
          >
            {running ? "Queue" : "Send"}
          </Button>
        </div>
      </div>
      {refused.map((reason) => (
        <p key={reason} className="composer-problem" role="alert">
          {reason}
        </p>
      ))}
      {problem && (
        <p className="composer-problem bad" role="alert">
          {problem}{" "}
          <button type="button" className="small-button" onClick={() => setProblem("")}>
            Dismiss
          </button>
        </p>
      )}
      <StatusLine live={live} rows={rows} state={state} workspace={session.cwd} />
    </section>
  );
}

function promptBlocker(live: SessionState, allowed: boolean): string {
  if (!allowed) return "This device has view access only.";
  if (live.connection === "elsewhere") return "Another process has this session open. Continue there.";
  if (live.connection === "watched") return "Another program is working on this session. Continue there.";
  if (live.connection === "none" && !live.can_resume) return "This session cannot be continued.";
  return "";
}

function errorText(error: unknown): string {
  if (error instanceof RequestError && error.body.guidance) return `${error.message} ${error.body.guidance}`;
  return error instanceof Error ? error.message : String(error);
}

/** Accepts files that are dropped anywhere: by default the browser would leave the page and open them. */
function useDrop(dropped: (files: FileList) => void): void {
  const same = useEvent(dropped);
  useEffect(() => {
    const over = (event: DragEvent) => {
      if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
    };
    const drop = (event: DragEvent) => {
      if (!event.dataTransfer || event.dataTransfer.files.length === 0) return;
      event.preventDefault();
      same(event.dataTransfer.files);
    };
    document.addEventListener("dragover", over);
    document.addEventListener("drop", drop);
    return () => {
      document.removeEventListener("dragover", over);
      document.removeEventListener("drop", drop);
    };
  }, [same]);
}

/** On a phone Enter starts a new line, because there is no Shift key to hold. */
function hasCoarsePointer(): boolean {
  return matchMedia("(pointer: coarse)").matches;
}

/** As high as the text is; the style sheet sets the most. */
function useAutosize(area: React.RefObject<HTMLTextAreaElement | null>, text: string): void {
  useLayoutEffect(() => {
    const element = area.current;
    if (!element) return;
    element.style.height = "auto";
    element.style.height = `${element.scrollHeight}px`;
  }, [area, text]);
}
