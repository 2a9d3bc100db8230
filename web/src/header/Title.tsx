import { useRef, useState } from "react";

import type { SessionItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useAsk } from "../store/client";
import { titleOf } from "../ui/words";

/** The session's title; pressing it makes it a field. Enter keeps, Escape leaves it. */
export function Title({ session, editable }: { session: SessionItem; editable: boolean }) {
  const [editing, setEditing] = useState(false);
  const [wanted, setWanted] = useState<string | null>(null);
  const ask = useAsk();
  const attempt = useAttempt();
  const left = useRef(false);
  const title = wanted ?? titleOf(session);

  const rename = async (text: string) => {
    setEditing(false);
    if (left.current || text.trim() === "" || text.trim() === title) return;
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
          onClick={() => {
            left.current = false;
            setEditing(true);
          }}
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
