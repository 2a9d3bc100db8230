import { useAttempt } from "../notice/notices";
import { ACCESSES } from "../start/access";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { formatDateTime } from "../ui/format";
import { QueryStatus } from "./QueryStatus";
import { useQuery } from "./useQuery";

/** The rules in force, and those that can be revoked. */
export function RuleSettings() {
  const ask = useRequest();
  const attempt = useAttempt();
  const [loaded, put] = useQuery(() => ask("policy.list", {}));
  if (loaded.kind !== "loaded") return <QueryStatus loaded={loaded} />;
  const { access, rules, notice } = loaded.value;
  const preset = ACCESSES.find((choice) => choice.id === access);

  const revoke = async (id: string) => {
    const policy = await attempt(ask("policy.revoke", { ids: [id] }), "The rule was not revoked");
    if (policy !== null) put(policy);
  };
  const remembered = rules.filter((rule) => rule.id !== null);
  const fixed = rules.filter((rule) => rule.id === null);
  return (
    <section aria-label="Rules">
      <p>
        New sessions start with the access <strong>{preset?.name ?? access}</strong>.{" "}
        <span className="hint">{preset?.means}</span>
      </p>
      {notice !== null && <p className="hint">{notice}</p>}
      <h2>Remembered from your answers</h2>
      {remembered.length === 0 && (
        <p className="hint">None yet. Choose “Always in this workspace” on a request to add one.</p>
      )}
      <ul className="settings-list">
        {remembered.map((rule) => (
          <li key={rule.id} className="settings-item">
            <div>
              <p>
                <span className={`tag ${rule.answer}`}>{rule.answer}</span> <code>{rule.text}</code>
              </p>
              <p className="hint">
                {rule.workspace}
                {rule.at !== null && ` · ${formatDateTime(rule.at)}`}
              </p>
            </div>
            <Button onClick={() => void revoke(rule.id ?? "")} aria-label={`Revoke: ${rule.answer} ${rule.text}`}>
              Revoke
            </Button>
          </li>
        ))}
      </ul>
      {fixed.length > 0 && (
        <details>
          <summary>{fixed.length} more, built in or from files</summary>
          <ul className="settings-list">
            {fixed.map((rule, at) => (
              <li key={at} className="settings-item">
                <div>
                  <p>
                    <span className={`tag ${rule.answer}`}>{rule.answer}</span> <code>{rule.text}</code>
                  </p>
                  <p className="hint">
                    {rule.layer} · {rule.source}
                  </p>
                </div>
              </li>
            ))}
          </ul>
        </details>
      )}
    </section>
  );
}
