import { useState } from "react";

import type { LoginMethod } from "../protocol";
import { useAttempt, useNotify } from "../notice/notices";
import { QueryStatus } from "../settings/QueryStatus";
import { useQuery } from "../settings/useQuery";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";
import { Dialog } from "../ui/Dialog";

interface Props {
  agent: string;
  onClose: () => void;
  /** Called once the agent is logged in. */
  onDone?: () => void;
}

/** The ways in which an agent can be logged in: some it does by itself, some are done on a terminal. */
export function LoginDialog({ agent, onClose, onDone }: Props) {
  const ask = useRequest();
  const attempt = useAttempt();
  const notify = useNotify();
  const [loaded] = useQuery(() => ask("agent.login", { agent }));
  const [busy, setBusy] = useState<string | null>(null);
  const [message, setMessage] = useState("");

  const logIn = async (method: LoginMethod) => {
    setBusy(method.id);
    const result = await attempt(ask("agent.login", { agent, method_id: method.id }), `${agent} was not logged in`);
    setBusy(null);
    if (result === null) return;
    setMessage(result.message);
    if (!result.done) return;
    notify({ tone: "good", text: `${agent} is logged in.` });
    onDone?.();
    onClose();
  };
  return (
    <Dialog title={`Log in to ${agent}`} onClose={onClose}>
      {loaded.kind !== "loaded" && <QueryStatus loaded={loaded} />}
      {loaded.kind === "loaded" && loaded.value.methods.length === 0 && (
        <p>This agent offers no login. You can store a key for it in the settings.</p>
      )}
      {loaded.kind === "loaded" &&
        loaded.value.methods.map((method) => (
          <section key={method.id} className="login-method">
            <h3>{method.name}</h3>
            <p className="hint">{method.description}</p>
            {method.kind === "terminal" ? (
              <>
                <p className="hint">Run this in a terminal on the machine where Dragoman runs:</p>
                <CopyLine text={`dragoman login ${agent} --method ${method.id}`} />
              </>
            ) : (
              <Button disabled={busy !== null} onClick={() => void logIn(method)} aria-label={`Log in: ${method.name}`}>
                {busy === method.id ? "Waiting for the agent…" : "Log in"}
              </Button>
            )}
          </section>
        ))}
      {message !== "" && <p role="status">{message}</p>}
    </Dialog>
  );
}
