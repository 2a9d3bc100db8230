import { memo } from "react";

import { CopyButton, imageData, Markdown } from "../markdown";
import type { Block, Message } from "../protocol";
import { formatDateTime, baseName } from "../ui/format";
import { BlockView } from "./BlockView";
import { useConversation } from "./context";
import type { Item } from "./items";
import { formatDuration } from "./format";
import { ShowWhole } from "./ShowWhole";

/** Characters; a longer prompt is clamped until it is expanded. */
const MAX_CLAMPED_CHARS = 1200;

type ItemOf<K extends Item["kind"]> = Extract<Item, { kind: K }>;

export const UserView = memo(function UserView({ item, onToggle }: { item: ItemOf<"user">; onToggle: () => void }) {
  const { message, open } = item;
  const long = message.text.length > MAX_CLAMPED_CHARS || message.text.split("\n").length > 16;
  return (
    <article className="user" aria-label="You">
      <div className="bubble">
        <p className={long && !open ? "clamped" : undefined}>{message.text}</p>
        {long && (
          <button type="button" className="small-button" aria-expanded={open} onClick={onToggle}>
            {open ? "Show less" : "Show all"}
          </button>
        )}
        {message.blocks.length > 0 && (
          <ul className="attached" aria-label="Attachments">
            {message.blocks.map((block, at) => (
              <li key={at}>
                <Attached block={block} />
              </li>
            ))}
          </ul>
        )}
        {(open || !long) && <ShowMore message={message} />}
      </div>
      <MessageTools message={message} />
    </article>
  );
});

/** An attachment of a prompt, small: the user knows it. */
function Attached({ block }: { block: Block }) {
  if (block.type === "image") {
    const source = imageData(block.mime_type, block.data);
    if (source) return <img className="thumbnail" src={source} alt={block.uri ?? "attached image"} />;
  }
  if (block.type === "resource" || block.type === "resource_link") {
    return (
      <span className="chip" title={block.uri}>
        {block.type === "resource_link" ? block.name : baseName(block.uri)}
      </span>
    );
  }
  return <span className="chip">{block.type === "unknown" ? block.kind : block.type}</span>;
}

/** A piece of the agent's message. The first carries the name, the last the buttons. */
export const TextView = memo(function TextView({ item }: { item: ItemOf<"text"> }) {
  const { message, text, first, streaming } = item;
  return (
    <article className={first ? "said first" : "said"} aria-label={first ? "Agent" : undefined}>
      <Markdown text={text} streaming={streaming} />
      {message?.blocks.map((block, at) => (
        <BlockView key={at} block={block} />
      ))}
      {message && <ShowMore message={message} />}
      {message && !streaming && <MessageTools message={message} />}
    </article>
  );
});

/** A button for the rest of a message that is too long to be sent as a whole. */
function ShowMore({ message }: { message: Message }) {
  const { bridge, sessionId, onLoaded } = useConversation();
  // While it is still being written, the server has no end of it to send.
  if (!message.shortened || !message.ended) return null;
  return <ShowWhole bridge={bridge} sessionId={sessionId} row={message} onWhole={onLoaded} />;
}

/** Copy and link. They wait beside the text until someone points at it, or comes by with the keyboard. */
function MessageTools({ message }: { message: Message }) {
  return (
    <div className="tools">
      <a
        className="small-button"
        href={`#m-${message.id}`}
        aria-label="Link to this message"
        title={`Link to this message, ${formatDateTime(message.time)}`}
      >
        Link
      </a>
      <CopyButton text={() => message.text} name="Copy message as Markdown" />
    </div>
  );
}

export const ThoughtView = memo(function ThoughtView({
  item,
  onToggle,
}: {
  item: ItemOf<"thought">;
  onToggle: () => void;
}) {
  const { message, seconds, streaming, open } = item;
  const words = streaming
    ? "thinking…"
    : seconds !== null && seconds >= 1
      ? `thought for ${formatDuration(Math.round(seconds))}`
      : "thought";
  return (
    <div className="thought">
      <button type="button" className="fold" aria-expanded={open} onClick={onToggle}>
        {words}
      </button>
      {open && (
        <div className="thought-text">
          <Markdown text={message.text} streaming={streaming} />
          <ShowMore message={message} />
        </div>
      )}
    </div>
  );
});
