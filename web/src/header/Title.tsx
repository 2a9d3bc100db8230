import { useRef, useState } from "react";

import type { SessionItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useRequest } from "../store/client";
import { focusOnMount } from "../ui/focusOnMount";
import { sessionTitle } from "../ui/format";

interface Props {
  session: SessionItem;
  editable: boolean;
  editing: boolean;
  onEditing: (editing: boolean) => void;
}

/** The session's title; pressing it makes it a field. Enter keeps, Escape leaves it. */
export function Title({ session, editable, editing, onEditing }: Props) {
  const [pendingTitle, setPendingTitle] = useState<string | null>(null);
  const ask = useRequest();
  const attempt = useAttempt();
  const isCancelled = useRef(false);
  const title = pendingTitle ?? sessionTitle(session);

  const rename = async (text: string) => {
    onEditing(false);
    const isSaved = !isCancelled.current;
    isCancelled.current = false;
    if (!isSaved || text.trim() === "" || text.trim() === title) return;
    setPendingTitle(text.trim());
    await attempt(ask("session.rename", { session_id: session.id, title: text.trim() }), "The session was not renamed");
    setPendingTitle(null);
  };
  if (!editing) {
    return (
      <h1 className="header-title">
        <button type="button" title={editable ? "Rename" : title} disabled={!editable} onClick={() => onEditing(true)}>
          {title}
        </button>
      </h1>
    );
  }
  return (
    <input
      className="input header-title"
      aria-label="Session title"
      defaultValue={title}
      ref={focusOnMount}
      onFocus={(event) => event.target.select()}
      onBlur={(event) => void rename(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Escape") isCancelled.current = true;
        if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
      }}
    />
  );
}
