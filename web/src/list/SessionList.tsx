import { useState } from "react";
import type { RefObject } from "react";

import type { SessionItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useRequest, useClient, useStore } from "../store/client";
import { Button } from "../ui/Button";
import { Link } from "../ui/Link";
import { useMinutes } from "../ui/useMinute";
import { SearchResults } from "./SearchResults";
import { SessionRow } from "./SessionRow";
import { NEEDS_YOU, groupSessions } from "./groups";
import "./list.css";

interface Props {
  /** The session that is shown. */
  chosen: string | null;
  searchField: RefObject<HTMLInputElement | null>;
}

/** All sessions, and a field that searches their text. */
export function SessionList({ chosen, searchField }: Props) {
  const list = useStore((known) => known.list);
  const [text, setText] = useState("");
  return (
    <>
      <div className="list-search">
        <input
          ref={searchField}
          className="input"
          type="search"
          aria-label="Search all sessions"
          placeholder="Search"
          value={text}
          onChange={(event) => setText(event.target.value)}
          onKeyDown={(event) => {
            if (event.key === "Escape") setText("");
          }}
        />
      </div>
      <nav className="list" aria-label="Sessions">
        {text.trim() !== "" ? (
          <SearchResults text={text} sessions={list?.sessions ?? []} />
        ) : list === null ? (
          <p className="list-note">Loading…</p>
        ) : list.sessions.length === 0 ? (
          <p className="list-note">No sessions yet.</p>
        ) : (
          <Groups
            sessions={list.sessions.filter((session) => !session.is_sub_agent)}
            more={list.more}
            chosen={chosen}
          />
        )}
      </nav>
    </>
  );
}

function Groups({
  sessions,
  more,
  chosen,
}: {
  sessions: readonly SessionItem[];
  more: boolean;
  chosen: string | null;
}) {
  const now = useMinutes();
  return (
    <>
      {groupSessions(sessions, now).map((group) => (
        <section key={group.title} aria-label={group.title}>
          <h2 className={group.title === NEEDS_YOU ? "list-title needs" : "list-title"}>
            {group.title === NEEDS_YOU ? (
              <Link to={{ view: "needs" }}>{`${NEEDS_YOU} (${group.sessions.length})`}</Link>
            ) : (
              group.title
            )}
          </h2>
          <ul>
            {group.sessions.map((session) => (
              <SessionRow key={session.id} session={session} chosen={session.id === chosen} now={now} />
            ))}
          </ul>
        </section>
      ))}
      {more && <Older before={sessions.at(-1)?.updated ?? null} />}
    </>
  );
}

function Older({ before }: { before: number | null }) {
  const ask = useRequest();
  const attempt = useAttempt();
  const { store } = useClient();
  const [busy, setBusy] = useState(false);
  const load = async () => {
    setBusy(true);
    const listed = await attempt(ask("session.list", { before }), "Older sessions were not loaded");
    if (listed !== null) store.addOlderSessions(listed.sessions, listed.more);
    setBusy(false);
  };
  return (
    <Button look="quiet" className="list-older" disabled={busy} onClick={() => void load()}>
      {busy ? "Loading…" : "Show older"}
    </Button>
  );
}
