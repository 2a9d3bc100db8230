import type { PendingItem } from "../protocol";
import { PermissionCard, QuestionCard } from "../permission";
import { navigate } from "../route";
import { useClient, useStore } from "../store/client";
import { Link } from "../ui/Link";
import { StateDot } from "../ui/StateDot";
import { baseName, plural, sessionTitle } from "../ui/format";
import "./tray.css";

/** All that waits for a person, in all sessions, to be answered here. The number keys answer the first. */
export function Tray() {
  const waiting = useStore((known) => known.waiting);
  if (waiting === null) return <p className="tray-none">Loading…</p>;
  return (
    <div className="tray">
      <h1>
        {waiting.length === 0 ? "Nothing needs you" : `${plural(waiting.length, "request needs", "requests need")} you`}
      </h1>
      {waiting.length === 0 && <p className="tray-none">Requests from agents appear here.</p>}
      {waiting.map((item, at) => (
        <Item key={idOf(item)} item={item} first={at === 0} />
      ))}
    </div>
  );
}

function Item({ item, first }: { item: PendingItem; first: boolean }) {
  const { socket } = useClient();
  const { session, permission, question } = item;
  const open = () => navigate({ view: "session", id: session.id });
  return (
    <section className="tray-item" aria-label={sessionTitle(session)}>
      <div className="tray-from">
        <StateDot state="waiting" />
        <h2>
          <Link to={{ view: "session", id: session.id }}>{sessionTitle(session)}</Link>
        </h2>
        <span className="hint">
          {session.agent} · {baseName(session.cwd)}
        </span>
      </div>
      {permission !== null && (
        <PermissionCard
          bridge={socket}
          sessionId={session.id}
          workspace={session.cwd}
          permission={permission}
          keys={first}
          onOpenFile={open}
        />
      )}
      {question !== null && <QuestionCard bridge={socket} sessionId={session.id} question={question} />}
    </section>
  );
}

function idOf({ session, permission, question }: PendingItem): string {
  return `${session.id} ${permission?.id ?? question?.id ?? ""}`;
}
