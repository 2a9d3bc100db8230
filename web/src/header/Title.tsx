import { useRef, useState } from "react";

import type { SessionItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useAsk } from "../store/client";
import { titleOf } from "../ui/words";

interface Props {
  session: SessionItem;
  editable: boolean;
  editing: boolean;
  onEditing: (editing: boolean) => void;
}

/** The session's title; pressing it makes it a field. Enter keeps, Escape leaves it. */
export function Title({ session, editable, editing, onEditing }: Props) {
  const [wanted, setWanted] = useState<string | null>(null);
  const ask = useAsk();
  const attempt = useAttempt();
  const left = useRef(false);
  const title = wanted ?? titleOf(session);

  const rename = async (text: string) => {
    onEditing(false);
    const kept = !left.current;
    left.current = false;
    if (!kept || text.trim() === "" || text.trim() === title) return;
    setWanted(text.trim());
    await attempt(ask("session.rename", { session_id: session.id, title: text.trim() }), "The session was not renamed");
    setWanted(null);
  };
  if (!editing) {
    return (
      <h1 className="header-title">
        <button
          type="button"
          title={editable ? "Rename" : title}
          disabled={!editable}
          onClick={() => onEditing(true)}
        >
          {title}
        </button>
      </h1>
    );
  }
  return (
    <input
      className="input header-title"
      aria-label="Title of the session"
      defaultValue={title}
      autoFocus
      onFocus={(event) => event.target.select()}
      onBlur={(event) => void rename(event.target.value)}
      onKeyDown={(event) => {
        if (event.key === "Escape") left.current = true;
        if (event.key === "Escape" || event.key === "Enter") event.currentTarget.blur();
      }}
    />
  );
}
