import { useState } from "react";

import type { ProviderItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { Pending } from "../settings/Pending";
import { useLoaded } from "../settings/useLoaded";
import { useAsk } from "../store/client";
import { Button } from "../ui/Button";
import { plural } from "../ui/words";

/** What agents kept of sessions in other terminals. Nothing of it is read before someone agrees. */
export function BringHistory() {
  const ask = useAsk();
  const attempt = useAttempt();
  const [loaded, put] = useLoaded(() => ask("transcripts.list", {}));
  const [asking, setAsking] = useState<string | null>(null);
  const allow = async ({ provider, name }: ProviderItem) => {
    setAsking(provider);
    const told = await attempt(ask("transcripts.allow", { provider }), `The sessions of ${name} were not read`);
    if (told !== null) put(told);
    setAsking(null);
  };
  const found =
    loaded.kind === "there" ? loaded.value.providers.filter(({ files, mode }) => files > 0 && mode !== "off") : [];
  return (
    <section>
      <h2>Bring your history</h2>
      <p>What you said to agents in other terminals can be read, searched and continued here.</p>
      {loaded.kind !== "there" && <Pending loaded={loaded} />}
      {loaded.kind === "there" && found.length === 0 && <p className="hint">None was found on this machine.</p>}
      {found.some(({ mode }) => mode === "ask") && <p className="hint">Nothing of it was read yet.</p>}
      {found.map((provider) => (
        <div key={provider.provider} className="start-history">
          <p>
            {provider.name}: {plural(provider.files, "session")}
          </p>
          {provider.mode === "on" ? (
            <p className="hint">
              {provider.problem ?? (provider.waiting > 0 ? `reading, ${provider.waiting} left` : "read")}
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
