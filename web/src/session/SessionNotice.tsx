import type { Action } from "../conversation";
import type { Live, Problem, SessionItem } from "../protocol";
import type { Doable, SessionActions } from "../header/useSessionActions";
import { useAttempt } from "../notice/notices";
import { useAsk } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";
import { told } from "./told";

interface Props {
  session: SessionItem;
  live: Live;
  actions: SessionActions;
  editable: boolean;
  onHelp: (action: Action) => void;
}

const LABELS: Partial<Record<Doable, string>> = {
  continue: "Continue",
  restart: "Restart",
  reload: "Restart and reload",
};

/** Between the header and the conversation: that the agent is gone, why, and what helps. */
export function SessionNotice({ session, live, actions, editable, onHelp }: Props) {
  const notice = told(live);
  return (
    <>
      {notice !== null && (
        <div className={`session-notice ${notice.tone}`} role={notice.tone === "bad" ? "alert" : "status"}>
          <div>
            <p>{notice.text}</p>
            {live.problem !== null && <Guidance problem={live.problem} />}
          </div>
          {editable && (
            <div className="buttons">
              {notice.actions
                .filter((name) => actions.items.some((item) => item.id === name))
                .map((name) => (
                  <Button key={name} onClick={() => actions.run(name)}>
                    {LABELS[name]}
                  </Button>
                ))}
              {live.problem?.actions.includes("login") && <Button onClick={() => onHelp("login")}>Log in</Button>}
              {live.problem?.actions.includes("settings") && (
                <Button onClick={() => onHelp("settings")}>Settings</Button>
              )}
            </div>
          )}
        </div>
      )}
      {live.policy_notice !== null && (
        <WorkspaceRules cwd={session.cwd} notice={live.policy_notice} editable={editable} />
      )}
    </>
  );
}

function Guidance({ problem }: { problem: Problem }) {
  return (
    <>
      {problem.guidance !== "" && <p className="hint">{problem.guidance}</p>}
      {problem.install !== null && <CopyLine text={problem.install} />}
      {problem.stderr !== "" && (
        <details>
          <summary>What the agent wrote to its log</summary>
          <pre>{problem.stderr}</pre>
        </details>
      )}
    </>
  );
}

function WorkspaceRules({ cwd, notice, editable }: { cwd: string; notice: string; editable: boolean }) {
  const ask = useAsk();
  const attempt = useAttempt();
  return (
    <div className="session-notice plain" role="status">
      <p>{notice}</p>
      {editable && (
        <Button
          onClick={() =>
            void attempt(ask("workspace.trust", { cwd, trust: true }), "The workspace's rules still do not count")
          }
        >
          Trust these rules
        </Button>
      )}
    </div>
  );
}
