import { useEffect, useRef, useState } from "react";

import type { Rows } from "../protocol";

/** Characters of a message that are announced; a screen reader would read a long one to the end. */
const MAX_SPOKEN_CHARS = 400;

/** Announces completed messages politely, and pending requests at once. */
export function Announcer({ rows }: { rows: Rows }) {
  const [polite, setPolite] = useState("");
  const message = rows.messages.findLast((one) => one.kind === "assistant" && one.ended && !one.replayed);
  // Messages that were there when the conversation was opened are not announced.
  const announcedId = useRef(message?.id);
  useEffect(() => {
    if (!message || message.id === announcedId.current) return;
    announcedId.current = message.id;
    setPolite(message.text.length > MAX_SPOKEN_CHARS ? `${message.text.slice(0, MAX_SPOKEN_CHARS)}…` : message.text);
  }, [message]);
  const permission = rows.permissions.find((one) => one.outcome === "pending");
  const question = rows.questions.find((one) => one.action === "pending");
  const urgent = permission
    ? `The agent asks for permission: ${permission.title}`
    : question
      ? `The agent asks: ${question.message}`
      : "";
  return (
    <>
      <div className="unseen" aria-live="polite">
        {polite}
      </div>
      <div className="unseen" role="alert">
        {urgent}
      </div>
    </>
  );
}
