import { useEffect, useState } from "react";

import type { ProviderItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { QueryStatus } from "../settings/QueryStatus";
import { useQuery } from "../settings/useQuery";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { plural } from "../ui/format";

/** Milliseconds, while files are read. */
const POLL_MS = 1000;

/** Offers to import the transcripts of agents in other terminals. Nothing is read before the user allows it. */
export function ImportHistory() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [loaded, put] = useQuery(() => ask("transcripts.list", {}));
  const [asking, setAsking] = useState<string | null>(null);
  const allow = async ({ provider, name }: ProviderItem) => {
    setAsking(provider);
    const result = await attempt(ask("transcripts.allow", { provider }), `The history of ${name} was not imported`);
    if (result !== null) put(result);
    setAsking(null);
  };
  const found =
    loaded.kind === "loaded" ? loaded.value.providers.filter(({ files, mode }) => files > 0 && mode !== "off") : [];
  const reading = found.some(({ mode, pending: waiting }) => mode === "on" && waiting > 0);
  useEffect(() => {
    if (!reading) return;
    const look = () => void ask("transcripts.list", {}).then(put, () => undefined); // the next poll may succeed
    const timer = setInterval(look, POLL_MS);
    return () => clearInterval(timer);
  }, [reading, ask, put]);
  return (
    <section>
      <h2>Import your history</h2>
      <p>
        Read, search and continue the sessions that you had with agents in other terminals. New ones appear here while
        you work.
      </p>
      {loaded.kind !== "loaded" && <QueryStatus loaded={loaded} />}
      {loaded.kind === "loaded" && found.length === 0 && (
        <p className="hint">No sessions were found on this machine.</p>
      )}
      {found.some(({ mode }) => mode === "ask") && <p className="hint">Nothing is read until you allow it.</p>}
      {found.map((provider) => (
        <div key={provider.provider} className="start-history">
          <p>
            {provider.name}: {plural(provider.files, "file")}
            {provider.mode === "ask" && provider.sessions > 0 && `, ${plural(provider.sessions, "session")} here`}
          </p>
          {provider.mode === "on" ? (
            <p className="hint">
              {provider.pending > 0
                ? `importing, ${plural(provider.pending, "file")} left`
                : `${plural(provider.sessions, "session")} imported; new ones appear as you work`}
              {provider.error !== null && <>. {provider.error}</>}
            </p>
          ) : (
            <Button
              disabled={asking !== null}
              onClick={() => void allow(provider)}
              aria-label={`Import: ${provider.name}`}
            >
              {asking === provider.provider ? "Importing…" : "Import"}
            </Button>
          )}
        </div>
      ))}
    </section>
  );
}
