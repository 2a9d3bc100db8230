import { Link } from "../ui/Link";
import { StateDot } from "../ui/StateDot";
import { stateOf } from "../ui/state";
import { useMinute } from "../ui/useMinute";
import type { SessionItem } from "../protocol";
import { SessionRow } from "./SessionRow";
import { named } from "./named";
import { ago, folderOf, plural, titleOf } from "../ui/words";
import { marked } from "./marked";
import { useSearch } from "./useSearch";

const CALLED = 8;

/** Sessions that are called so, then places where it was said, each with the words around it. */
export function Hits({ text, sessions }: { text: string; sessions: readonly SessionItem[] }) {
  const now = useMinute();
  const called = named(sessions, text).slice(0, CALLED);
  return (
    <>
      {called.length > 0 && (
        <section aria-label="Sessions that are called so">
          <h2 className="list-title">Sessions</h2>
          <ul>
            {called.map((session) => (
              <SessionRow key={session.id} session={session} chosen={false} now={now} />
            ))}
          </ul>
        </section>
      )}
      <Said text={text} now={now} />
    </>
  );
}

function Said({ text, now }: { text: string; now: number }) {
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
        <section aria-label="Where it was said">
          <h2 className="list-title" role="status">
            {searched.hits.length === 0 ? "Said nowhere" : `Said in ${plural(searched.hits.length, "place")}`}
          </h2>
          <ul>
            {searched.hits.map((hit) => (
              <li key={`${hit.session.id} ${hit.row_id}`}>
                <Link to={{ view: "session", id: hit.session.id, anchor: `m-${hit.row_id}` }} className="list-row">
                  <StateDot state={stateOf(hit.session)} />
                  <span className="list-name">{titleOf(hit.session)}</span>
                  <span className="list-time">{ago(hit.at, now)}</span>
                  <span className="list-where">{folderOf(hit.session.cwd)}</span>
                  <span className="list-snippet">
                    {marked(hit.snippet, hit.marks).map((piece, at) =>
                      piece.hit ? <mark key={at}>{piece.text}</mark> : piece.text,
                    )}
                  </span>
                </Link>
              </li>
            ))}
          </ul>
        </section>
      );
  }
}
