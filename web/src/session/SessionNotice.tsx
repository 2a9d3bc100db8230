import type { ProblemAction } from "../conversation";
import type { SessionState, SessionFailure, SessionItem } from "../protocol";
import type { SessionActions } from "../header/useSessionActions";
import { useAttempt } from "../notice/notices";
import { useRequest, useStore } from "../store/client";
import { Button } from "../ui/Button";
import { CopyLine } from "../ui/CopyLine";
import { Link } from "../ui/Link";
import { sessionTitle } from "../ui/format";
import { agentNotice, type Remedy } from "./agentNotice";

interface Props {
  session: SessionItem;
  live: SessionState;
  actions: SessionActions;
  editable: boolean;
  onHelp: (action: ProblemAction) => void;
}

const LABELS: Readonly<Record<Remedy, string>> = {
  continue: "Continue",
  restart: "Restart",
  reload: "Restart and reload",
  login: "Log in",
  settings: "Agent settings",
};

/** The notice between header and conversation: the agent's error and what helps. */
export function SessionNotice({ session, live, actions, editable, onHelp }: Props) {
  const notice = agentNotice(live);
  const bad = notice?.tone === "bad";
  const offered = (notice?.remedies ?? []).filter(
    (help) => help === "login" || help === "settings" || actions.items.some((item) => item.id === help),
  );
  const act = (help: Remedy) => {
    if (help === "login" || help === "settings") onHelp(help);
    else actions.run(help);
  };
  return (
    <>
      {notice !== null && (
        <div className={`session-notice ${notice.tone}`} role={bad ? "alert" : "status"}>
          <div>
            <p>{notice.text}</p>
            {live.failure !== null && <Guidance problem={live.failure} />}
          </div>
          {editable && (
            <div className="buttons">
              {offered.map((help, at) => (
                <Button key={help} look={bad && at === 0 ? "primary" : "plain"} onClick={() => act(help)}>
                  {LABELS[help]}
                </Button>
              ))}
            </div>
          )}
        </div>
      )}
      {session.forked_from !== null && session.runs === 0 && <ForkNotice original={session.forked_from} />}
      {live.policy_notice !== null && (
        <WorkspaceRules cwd={session.cwd} notice={live.policy_notice} editable={editable} />
      )}
    </>
  );
}

/** The conversation of a fork is shown from here on; what came before is in the original. */
function ForkNotice({ original }: { original: string }) {
  const known = useStore(({ list }) => list?.sessions.find((one) => one.id === original));
  return (
    <div className="session-notice plain" role="status">
      <p>
        Forked from{" "}
        <Link to={{ view: "session", id: original }}>{known === undefined ? original : sessionTitle(known)}</Link>. The
        agent knows that conversation.
      </p>
    </div>
  );
}

function Guidance({ problem }: { problem: SessionFailure }) {
  return (
    <>
      {problem.install !== null ? (
        <>
          <p className="hint">Install it:</p>
          <CopyLine text={problem.install} />
        </>
      ) : (
        problem.guidance !== "" && <p className="hint">{problem.guidance}</p>
      )}
      {problem.stderr !== "" && (
        <details>
          <summary>Agent log</summary>
          <pre>{problem.stderr}</pre>
        </details>
      )}
    </>
  );
}

function WorkspaceRules({ cwd, notice, editable }: { cwd: string; notice: string; editable: boolean }) {
  const ask = useRequest();
  const attempt = useAttempt();
  return (
    <div className="session-notice plain" role="status">
      <p>{notice}</p>
      {editable && (
        <Button
          onClick={() =>
            void attempt(ask("workspace.trust", { cwd, trust: true }), "The workspace's rules were not trusted")
          }
        >
          Trust these rules
        </Button>
      )}
    </div>
  );
}
