import { Link } from "../ui/Link";
import { StateDot } from "../ui/StateDot";
import { stateOf } from "../ui/state";
import { useMinutes } from "../ui/useMinute";
import type { SessionItem } from "../protocol";
import { SessionRow } from "./SessionRow";
import { filterSessions } from "./named";
import { formatAge, baseName, sessionTitle } from "../ui/format";
import { describeMatches, splitByMarks } from "./snippet";
import { useSearch } from "./useSearch";

const MAX_NAMED = 8;

/** Sessions whose name matches, then messages that match, each with its context. */
export function SearchResults({ text, sessions }: { text: string; sessions: readonly SessionItem[] }) {
  const now = useMinutes();
  const called = filterSessions(sessions, text).slice(0, MAX_NAMED);
  return (
    <>
      {called.length > 0 && (
        <section aria-label="Sessions with this name">
          <h2 className="list-title">Sessions</h2>
          <ul>
            {called.map((session) => (
              <SessionRow key={session.id} session={session} chosen={false} now={now} />
            ))}
          </ul>
        </section>
      )}
      <TextMatches text={text} now={now} />
    </>
  );
}

function TextMatches({ text, now }: { text: string; now: number }) {
  const searched = useSearch(text);
  switch (searched.kind) {
    case "none":
      return null;
    case "searching":
      return <p className="list-note">Searching…</p>;
    case "failed":
      return (
        <p className="list-note bad" role="alert">
          {searched.why}
        </p>
      );
    case "found":
      return (
        <section aria-label="Matches in messages">
          <h2 className="list-title" role="status">
            {describeMatches(searched.hits.length, searched.isCut)}
          </h2>
          <ul>
            {searched.hits.map((hit) => (
              <li key={`${hit.session.id} ${hit.row_id}`}>
                <Link to={{ view: "session", id: hit.session.id, anchor: `m-${hit.row_id}` }} className="list-row">
                  <StateDot state={stateOf(hit.session)} />
                  <span className="list-name">{sessionTitle(hit.session)}</span>
                  <span className="list-time">{formatAge(hit.at, now)}</span>
                  <span className="list-where">{baseName(hit.session.cwd)}</span>
                  <span className="list-snippet">
                    {splitByMarks(hit.snippet, hit.marks).map((piece, at) =>
                      piece.isMatch ? <mark key={at}>{piece.text}</mark> : piece.text,
                    )}
                  </span>
                </Link>
              </li>
            ))}
          </ul>
          {searched.isCut && <p className="list-note">There are more matches. Add a word to narrow the search.</p>}
        </section>
      );
  }
}
