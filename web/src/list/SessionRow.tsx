import type { SessionItem } from "../protocol";
import { Link } from "../ui/Link";
import { StateDot } from "../ui/StateDot";
import { stateOf } from "../ui/state";
import { formatAge, baseName, sessionTitle } from "../ui/format";

/** A session in the list. */
export function SessionRow({ session, chosen, now }: { session: SessionItem; chosen: boolean; now: number }) {
  return (
    <li>
      <Link to={{ view: "session", id: session.id }} className="list-row" aria-current={chosen ? "page" : undefined}>
        <StateDot state={stateOf(session)} />
        <span className="list-name">{sessionTitle(session)}</span>
        <span className="list-time">{formatAge(session.updated, now)}</span>
        <span className="list-where" title={session.cwd}>
          {baseName(session.cwd)} · {session.agent}
          {session.imported && " · imported"}
        </span>
      </Link>
    </li>
  );
}
