import { useEffect, useRef, useState } from "react";

import type { Rows } from "../protocol";

/** A person who listens can stop it; a whole report read out at once is too much. */
const SPOKEN = 400;

/** Says new messages when they are complete, and what waits for an answer at once. */
export function Announcer({ rows }: { rows: Rows }) {
  const [politely, setPolitely] = useState("");
  const message = rows.messages.findLast((one) => one.kind === "assistant" && one.ended && !one.replayed);
  // What was there when the conversation was opened is not news.
  const known = useRef(message?.id);
  useEffect(() => {
    if (!message || message.id === known.current) return;
    known.current = message.id;
    setPolitely(message.text.length > SPOKEN ? `${message.text.slice(0, SPOKEN)}…` : message.text);
  }, [message]);
  const permission = rows.permissions.find((one) => one.outcome === "pending");
  const question = rows.questions.find((one) => one.action === "pending");
  const atOnce = permission
    ? `The agent asks for permission: ${permission.title}`
    : question
      ? `The agent asks: ${question.message}`
      : "";
  return (
    <>
      <div className="unseen" aria-live="polite">
        {politely}
      </div>
      <div className="unseen" role="alert">
        {atOnce}
      </div>
    </>
  );
}
