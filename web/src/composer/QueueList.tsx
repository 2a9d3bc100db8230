import { useState } from "react";

import type { Bridge } from "../conversation/bridge";
import type { QueuedPrompt } from "../protocol";
import { IconButton } from "../ui/Button";
import { focusOnMount } from "../ui/focusOnMount";

interface Props {
  bridge: Bridge;
  sessionId: string;
  queue: readonly QueuedPrompt[];
  onProblem: (error: unknown) => void;
}

/** Prompts that wait for their turn: each can be changed, moved, sent at once or taken out. */
export function QueueList({ bridge, sessionId, queue, onProblem }: Props) {
  if (queue.length === 0) return null;
  const did = (done: Promise<unknown>) => void done.catch(onProblem);
  const target = (queued: QueuedPrompt) => ({ session_id: sessionId, queued_id: queued.id });
  return (
    <ol className="queue" aria-label="Queued prompts">
      {queue.map((queued, at) => (
        <QueuedView
          key={queued.id}
          queued={queued}
          first={at === 0}
          last={at === queue.length - 1}
          onEdit={(text) => did(bridge.request("queue.edit", { ...target(queued), text }))}
          onMove={(by) => did(bridge.request("queue.move", { ...target(queued), to: at + by }))}
          onRemove={() => did(bridge.request("queue.remove", target(queued)))}
          onSendNow={() => did(bridge.request("queue.send", target(queued)))}
        />
      ))}
    </ol>
  );
}

interface QueuedProps {
  queued: QueuedPrompt;
  first: boolean;
  last: boolean;
  onEdit: (text: string) => void;
  onMove: (by: 1 | -1) => void;
  onRemove: () => void;
  onSendNow: () => void;
}

function QueuedView({ queued, first, last, onEdit, onMove, onRemove, onSendNow }: QueuedProps) {
  const [text, setText] = useState<string | null>(null);
  if (text !== null) {
    const save = () => {
      if (text.trim() !== "" && text !== queued.text) onEdit(text);
      setText(null);
    };
    return (
      <li>
        <textarea
          className="input"
          aria-label="Edit queued prompt"
          rows={2}
          ref={focusOnMount}
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setText(null);
            else if (event.key === "Enter" && !event.shiftKey && !event.nativeEvent.isComposing) save();
            else return;
            event.preventDefault();
          }}
        />
        <button type="button" className="small-button" onClick={save}>
          Save
        </button>
      </li>
    );
  }
  return (
    <li>
      <span className="queued-text">
        {queued.text}
        {queued.attachments.length > 0 && <span className="soft"> + {queued.attachments.join(", ")}</span>}
      </span>
      <button type="button" className="small-button" onClick={() => setText(queued.text)}>
        Edit
      </button>
      <button type="button" className="small-button" onClick={onSendNow}>
        Send now
      </button>
      <button type="button" className="small-button" aria-label="Move up" disabled={first} onClick={() => onMove(-1)}>
        ↑
      </button>
      <button type="button" className="small-button" aria-label="Move down" disabled={last} onClick={() => onMove(1)}>
        ↓
      </button>
      <IconButton icon="close" label="Remove from the queue" onClick={onRemove} />
    </li>
  );
}
