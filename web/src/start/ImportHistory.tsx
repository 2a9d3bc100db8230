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

/** What agents kept of sessions in other terminals. Nothing of it is read before someone agrees. */
export function ImportHistory() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [loaded, put] = useQuery(() => ask("transcripts.list", {}));
  const [asking, setAsking] = useState<string | null>(null);
  const allow = async ({ provider, name }: ProviderItem) => {
    setAsking(provider);
    const result = await attempt(ask("transcripts.allow", { provider }), `The sessions of ${name} were not read`);
    if (result !== null) put(result);
    setAsking(null);
  };
  const found =
    loaded.kind === "loaded" ? loaded.value.providers.filter(({ files, mode }) => files > 0 && mode !== "off") : [];
  const reading = found.some(({ mode, waiting }) => mode === "on" && waiting > 0);
  useEffect(() => {
    if (!reading) return;
    const look = () => void ask("transcripts.list", {}).then(put, () => undefined); // the next one may come through
    const timer = setInterval(look, POLL_MS);
    return () => clearInterval(timer);
  }, [reading, ask, put]);
  return (
    <section>
      <h2>Bring your history</h2>
      <p>
        What you said to agents in other terminals can be read, searched and continued here; and what you say to them
        from now on shows up while it is said.
      </p>
      {loaded.kind !== "loaded" && <QueryStatus loaded={loaded} />}
      {loaded.kind === "loaded" && found.length === 0 && <p className="hint">None was found on this machine.</p>}
      {found.some(({ mode }) => mode === "ask") && <p className="hint">Nothing is read before you agree.</p>}
      {found.map((provider) => (
        <div key={provider.provider} className="start-history">
          <p>
            {provider.name}: {plural(provider.files, "file")}
            {provider.mode === "ask" && provider.sessions > 0 && `, ${plural(provider.sessions, "session")} here`}
          </p>
          {provider.mode === "on" ? (
            <p className="hint">
              {provider.waiting > 0
                ? `reading, ${provider.waiting} left`
                : `${plural(provider.sessions, "session")} here, and watched`}
              {provider.problem !== null && <>. {provider.problem}</>}
            </p>
          ) : (
            <Button
              disabled={asking !== null}
              onClick={() => void allow(provider)}
              aria-label={`Read them: ${provider.name}`}
            >
              {asking === provider.provider ? "Reading…" : "Read them"}
            </Button>
          )}
        </div>
      ))}
    </section>
  );
}
