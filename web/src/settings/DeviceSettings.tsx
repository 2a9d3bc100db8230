import { useState } from "react";
import type { SyntheticEvent } from "react";

import type { Scope, TokenItem } from "../protocol";
import { useAttempt } from "../notice/notices";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";
import { Field, SelectField } from "../ui/Field";
import { formatDateTime } from "../ui/format";
import { QueryStatus } from "./QueryStatus";
import { useQuery } from "./useQuery";

const SCOPES: readonly { id: Scope; means: string }[] = [
  { id: "view", means: "view only" },
  { id: "prompt", means: "view, prompt and answer" },
  { id: "admin", means: "full access" },
];

/** The tokens of browsers, phones and programs. */
export function DeviceSettings() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [loaded, put] = useQuery(() => ask("token.list", {}));
  const [newToken, setNewToken] = useState<string | null>(null);
  if (loaded.kind !== "loaded") return <QueryStatus loaded={loaded} />;
  const { tokens } = loaded.value;

  const create = async (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = event.currentTarget;
    const fields = new FormData(form);
    const name = String(fields.get("name")).trim();
    const answer = await attempt(
      ask("token.create", { name, scope: fields.get("scope") as Scope }),
      "The token was not created",
    );
    if (answer === null) return;
    form.reset();
    setNewToken(answer.token);
    put({ tokens: [...tokens, answer.item] });
  };
  const revoke = async (token: TokenItem) => {
    const left = await attempt(ask("token.revoke", { token_id: token.id }), "The token was not revoked");
    if (left !== null) put(left);
    // The server refuses whatever this browser says next; better to know it at once.
    if (token.current) ask("token.list", {}).catch(() => undefined);
  };
  return (
    <section aria-label="Devices">
      <p className="hint">Every browser, phone or program that uses this server has its own token.</p>
      <ul className="settings-list">
        {tokens.map((token) => (
          <li key={token.id} className="settings-item">
            <div>
              <h2>
                {token.name} {token.current && <span className="tag">this browser</span>}
              </h2>
              <p className="hint">
                {SCOPES.find((scope) => scope.id === token.scope)?.means} · created {formatDateTime(token.created)} ·{" "}
                {token.used === null ? "never used" : `used ${formatDateTime(token.used)}`}
              </p>
            </div>
            <Button
              look={token.current ? "quiet" : "plain"}
              onClick={() => void revoke(token)}
              aria-label={`${revokeLabel(token)} ${token.name}`}
            >
              {revokeLabel(token)}
            </Button>
          </li>
        ))}
      </ul>
      <form className="settings-form" onSubmit={(event) => void create(event)}>
        <h2>New token</h2>
        <div className="settings-pair">
          <Field name="name" label="Name" required placeholder="laptop script" autoComplete="off" />
          <SelectField
            name="scope"
            label="Access"
            defaultValue="prompt"
            options={SCOPES.map((scope) => ({ value: scope.id, label: `${scope.id}: ${scope.means}` }))}
          />
        </div>
        <div className="buttons">
          <Button type="submit">Create token</Button>
        </div>
      </form>
      {newToken !== null && (
        <div role="status" className="settings-result good">
          <p>Copy it now. It is not shown again.</p>
          <CopyLine text={newToken} what="Copy the token" />
        </div>
      )}
    </section>
  );
}

function revokeLabel(token: TokenItem): string {
  return token.current ? "Sign out" : "Revoke";
}
