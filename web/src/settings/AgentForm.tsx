import { useState } from "react";
import type { SyntheticEvent } from "react";

import type { AgentItem } from "../protocol";
import { useNotify } from "../notice/notices";
import { RequestError } from "../socket/requests";
import { useRequest } from "../store/client";
import { Button } from "../ui/Button";
import { Dialog } from "../ui/Dialog";
import { AreaField, Field } from "../ui/Field";
import { argumentsOf, variablesOf } from "./commandLine";

/** Adds or edits an agent. Empty variables and an empty key leave the stored ones unchanged. */
export function AgentForm({ agent, onClose }: { agent: AgentItem | null; onClose: () => void }) {
  const ask = useRequest();
  const notify = useNotify();
  const [problem, setProblem] = useState<{ field: string | null; text: string } | null>(null);
  const [busy, setBusy] = useState(false);
  const errorAt = (field: string) => (problem?.field === field ? problem.text : undefined);

  const save = async (event: SyntheticEvent<HTMLFormElement>) => {
    event.preventDefault();
    const form = new FormData(event.currentTarget);
    const text = (name: string) => String(form.get(name) ?? "").trim();
    const variables = variablesOf(String(form.get("env") ?? ""));
    if ("wrong" in variables) {
      setProblem({ field: "env", text: `This line is not NAME=value: ${variables.wrong}` });
      return;
    }
    const key = text("key") === "" ? {} : { key_name: text("key_name"), key: text("key") };
    const common = {
      name: text("name") || null,
      command: text("command"),
      args: argumentsOf(String(form.get("args") ?? "")),
      ...key,
    };
    setBusy(true);
    try {
      if (agent === null) await ask("agent.add", { ...common, agent: text("id"), env: variables.env });
      else await ask("agent.edit", { ...common, agent: agent.id, ...(form.get("env") ? { env: variables.env } : {}) });
      notify({
        tone: "good",
        text: `${text("name") || agent?.name || text("id")} was saved. The change applies when the agent starts next.`,
      });
      onClose();
    } catch (refused) {
      setBusy(false);
      const body = refused instanceof RequestError ? refused.body : null;
      setProblem({
        field: body?.field ?? null,
        text: [body?.message ?? String(refused), body?.guidance].filter(Boolean).join(" "),
      });
    }
  };
  return (
    <Dialog title={agent === null ? "Add an agent" : `Edit ${agent.name}`} onClose={onClose}>
      <form className="settings-form" onSubmit={(event) => void save(event)} autoComplete="off">
        {agent === null && (
          <Field
            name="id"
            label="Id"
            required
            pattern="[a-z0-9][a-z0-9._\-]*"
            hint="Lowercase letters, digits, dots and dashes."
            error={errorAt("agent")}
          />
        )}
        <Field name="name" label="Name" defaultValue={agent?.name ?? ""} error={errorAt("name")} />
        <Field
          name="command"
          label="Command"
          required
          defaultValue={agent?.command ?? ""}
          spellCheck={false}
          hint="A program that speaks ACP."
          error={errorAt("command")}
        />
        <AreaField
          name="args"
          label="Arguments"
          rows={3}
          defaultValue={agent?.args.join("\n") ?? ""}
          spellCheck={false}
          hint="One per line."
          error={errorAt("args")}
        />
        <AreaField
          name="env"
          label="Environment"
          rows={2}
          spellCheck={false}
          placeholder="NAME=value"
          hint={
            agent !== null && agent.env.length > 0
              ? `Currently set: ${agent.env.join(", ")}. What you enter here replaces them.`
              : "One per line. Keys go below."
          }
          error={errorAt("env")}
        />
        <div className="settings-pair">
          <Field
            name="key_name"
            label="Key name"
            placeholder="ANTHROPIC_API_KEY"
            spellCheck={false}
            error={errorAt("key_name")}
          />
          <Field
            name="key"
            label="Key"
            type="password"
            autoComplete="new-password"
            hint={
              agent?.has_key
                ? "A key is stored. It is never shown; a new one replaces it."
                : "Stored separately and never shown again."
            }
            error={errorAt("key")}
          />
        </div>
        {problem !== null && (
          <p className="bad" role="alert">
            {problem.text}
          </p>
        )}
        <div className="buttons">
          <Button look="primary" type="submit" disabled={busy}>
            Save
          </Button>
          <Button onClick={onClose}>Cancel</Button>
        </div>
      </form>
    </Dialog>
  );
}
