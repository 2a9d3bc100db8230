import { useEffect, useId, useState } from "react";

import type { Bridge } from "../conversation/bridge";
import { displayTitle } from "../conversation/paths";
import { ShowWhole } from "../conversation/ShowWhole";
import type { PermissionOption, Permission, RulePreview } from "../protocol";
import { agentWords, describeGuard, describeOption, describePermission } from "./describe";
import { useNumberKeys } from "./keys";
import { RequestView } from "./RequestView";
import { useScopeRights } from "./scope";
import { escapeInvisible } from "./escapeInvisible";
import "./permission.css";

interface Props {
  bridge: Bridge;
  sessionId: string;
  workspace: string;
  permission: Permission;
  /** True for the first pending request: number keys answer it. */
  keys?: boolean;
  onOpenFile: (path: string, line: number | null) => void;
}

type PermissionAnswerFields =
  | { option_id: string }
  | { answer: "allow" | "reject"; always: true; only_files?: boolean };

/** A permission request in full, then the options. */
export function PermissionCard({ bridge, sessionId, workspace, permission, keys = false, onOpenFile }: Props) {
  const heading = useId();
  // The lasting answer whose rule is shown: an option of the agent's, or our own for the workspace.
  const [always, setAlways] = useState<PermissionOption | "own" | null>(null);
  const [whole, setWhole] = useState<Permission | null>(null);
  const [sent, setSent] = useState(false);
  const [problem, setProblem] = useState("");
  const rights = useScopeRights();
  const pending = permission.outcome === "pending";
  // Of our own options those that last are left out: ours for the workspace does the same, and shows the rule first.
  const own = permission.origin !== "agent";
  const options = permission.options.filter((option) => !own || option.kind.endsWith("_once"));
  const answer = async (how: PermissionAnswerFields) => {
    setSent(true);
    setProblem("");
    try {
      const { accepted } = await bridge.request("permission.answer", {
        session_id: sessionId,
        permission_id: permission.id,
        ...how,
      });
      if (!accepted) setProblem("It was already answered elsewhere, or the agent withdrew it.");
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
      setSent(false);
    }
  };
  /** A lasting answer becomes a rule, which is shown before it is saved. */
  const choose = (option: PermissionOption) => {
    if (option.kind.endsWith("_always") && rights.canAddRules) setAlways(option);
    else void answer({ option_id: option.option_id });
  };
  useNumberKeys(
    keys && pending && !sent && rights.canAnswer,
    options.length + (rights.canAddRules ? 1 : 0),
    (number) => {
      const option = options[number - 1];
      if (option) choose(option);
      else setAlways("own");
    },
  );
  return (
    <section className={pending ? "card waiting" : "card"} aria-labelledby={heading} data-permission={permission.id}>
      <h2 id={heading} title={escapeInvisible(permission.title)}>
        {escapeInvisible(displayTitle(permission.title, permission.kind, workspace)) || "The agent asks for permission"}
      </h2>
      <p className="soft where">in {workspace}</p>
      {permission.asked_because !== "" && <p className="guarded">{describeGuard(permission.asked_because)}</p>}
      <RequestView request={whole ?? permission} workspace={workspace} onOpenFile={onOpenFile} />
      {permission.shortened && whole === null && (
        <ShowWhole bridge={bridge} sessionId={sessionId} row={permission} onWhole={setWhole} />
      )}
      {pending && !rights.canAnswer && <p className="soft">{NOT_HERE}</p>}
      {pending && rights.canAnswer && (
        <>
          <div className="choices">
            {options.map((option, at) => (
              <OptionButton
                key={option.option_id}
                option={option}
                number={at + 1}
                keys={keys}
                disabled={sent}
                onChoose={() => choose(option)}
              />
            ))}
          </div>
          {/* Apart from the agent's options: the agent never learns of this one. */}
          <div className="own-choice">
            {rights.canAddRules && (
              <button
                type="button"
                className="button quiet"
                aria-expanded={always === "own"}
                disabled={sent}
                title="Saves a rule in Dragoman, whatever the agent remembers. You see the rule before it is saved."
                onClick={() => setAlways(always === "own" ? null : "own")}
              >
                {keys && <kbd>{options.length + 1}</kbd>} Always in this workspace…
              </button>
            )}
            {keys && <span className="keys-hint">while typing: Alt and the number</span>}
          </div>
          {always !== null && (
            <Always
              key={always === "own" ? "" : always.option_id}
              bridge={bridge}
              sessionId={sessionId}
              permissionId={permission.id}
              option={always === "own" ? null : always}
              disabled={sent}
              onSave={(which, onlyFiles) => {
                if (onlyFiles) void answer({ answer: which, always: true, only_files: true });
                else if (always === "own") void answer({ answer: which, always: true });
                else void answer({ option_id: always.option_id });
              }}
            />
          )}
        </>
      )}
      {!pending && <p className="soft">{describePermission(permission)}</p>}
      {problem && (
        <p className="bad" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

const NOT_HERE = "Waiting for someone who may answer: this device has view access only.";

interface OptionProps {
  option: PermissionOption;
  number: number;
  keys: boolean;
  disabled: boolean;
  onChoose: () => void;
}

/** An answer, named by its effect. The agent's own words are beside it: they may say anything. */
function OptionButton({ option, number, keys, disabled, onChoose }: OptionProps) {
  // Only "allow once" stands out; a lasting answer should be a deliberate choice.
  const look = option.kind === "allow_once" ? "button primary" : "button";
  const { label, effect } = describeOption(option.kind);
  const words = agentWords(option);
  return (
    <button type="button" className={look} disabled={disabled} title={effect} onClick={onChoose}>
      {keys && <kbd>{number}</kbd>} {label}
      {words !== "" && <span className="agent-words"> “{escapeInvisible(words)}”</span>}
    </button>
  );
}

interface AlwaysProps {
  bridge: Bridge;
  sessionId: string;
  permissionId: string;
  /** The agent's option that was chosen; null for our own, which can also deny. */
  option: PermissionOption | null;
  disabled: boolean;
  onSave: (answer: "allow" | "reject", onlyFiles: boolean) => void;
}

/** Shows the rule before it is saved. */
function Always({ bridge, sessionId, permissionId, option, disabled, onSave }: AlwaysProps) {
  const [which, setWhich] = useState<"allow" | "reject">(option?.kind === "reject_always" ? "reject" : "allow");
  const [onlyFiles, setOnlyFiles] = useState(false);
  const preview = usePreview(bridge, sessionId, permissionId, which);
  const hasRule = preview !== null && preview.rules.length > 0;
  const narrow = preview?.only_files ?? [];
  const isNarrow = onlyFiles && narrow.length > 0;
  return (
    <div className="always">
      {option !== null && <p>From now on, for all agents in this workspace:</p>}
      <fieldset hidden={option !== null}>
        <legend>From now on, in this workspace</legend>
        {(["allow", "reject"] as const).map((one) => (
          <label key={one}>
            <input
              type="radio"
              name={`always-${permissionId}`}
              checked={which === one}
              onChange={() => setWhich(one)}
            />
            {one === "allow" ? "allow" : "deny"}
          </label>
        ))}
      </fieldset>
      {preview === null && <p className="soft">Preparing the rule…</p>}
      {narrow.length > 0 && (
        <label>
          <input type="checkbox" checked={onlyFiles} onChange={(event) => setOnlyFiles(event.target.checked)} />
          {narrow.length === 1 ? "only this file" : "only these files"}
        </label>
      )}
      {(isNarrow ? narrow : preview?.rules)?.map((rule) => (
        <pre key={rule} className="rule">
          {rule}
        </pre>
      ))}
      {preview?.error && <p className="soft">{preview.error}</p>}
      <button
        type="button"
        className="button primary"
        disabled={disabled || preview === null || (option === null && !hasRule)}
        onClick={() => onSave(which, isNarrow)}
      >
        {`${hasRule || option === null ? "Save the rule and " : ""}${which === "allow" ? "allow" : "deny"}`}
      </button>
    </div>
  );
}

function usePreview(
  bridge: Bridge,
  sessionId: string,
  permissionId: string,
  answer: "allow" | "reject",
): RulePreview | null {
  const [loaded, setLoaded] = useState<{ answer: string; preview: RulePreview } | null>(null);
  useEffect(() => {
    let isCurrent = true;
    void bridge
      .request("policy.preview", { session_id: sessionId, permission_id: permissionId, answer })
      .catch((error: Error): RulePreview => ({ rules: [], only_files: [], error: error.message }))
      .then((preview) => {
        if (isCurrent) setLoaded({ answer, preview });
      });
    return () => {
      isCurrent = false;
    };
  }, [bridge, sessionId, permissionId, answer]);
  return loaded?.answer === answer ? loaded.preview : null;
}
