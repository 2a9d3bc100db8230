import { contextFraction, contextSizes } from "../composer/status";
import { formatCount, formatMoney, totalTokens } from "../conversation/format";
import { settingValueLabel } from "../header/settingsLayout";
import { CopyButton } from "../markdown";
import type { ConnectionStatus, SessionState, SessionItem, SessionDetails, SubAgent } from "../protocol";
import { useStore } from "../store/client";
import { Link } from "../ui/Link";
import { formatDateTime, sessionTitle } from "../ui/format";

/** The connection in a word; the notice above the conversation has the reason. */
const CONNECTION_LABELS: Readonly<Record<ConnectionStatus, string>> = {
  connected: "connected",
  starting: "starting",
  none: "closed",
  elsewhere: "open in another program",
  watched: "in use by another program",
  disconnected: "disconnected",
  error: "not started",
};

/** Details of the session, its agent and its usage. */
export function DetailsTab({
  session,
  live,
  state,
}: {
  session: SessionItem;
  live: SessionState;
  state: SessionDetails;
}) {
  const { usage } = state;
  const used = contextFraction(usage);
  // Zero in all means that nothing is known of the parts either.
  const tokens = (count: number | null) => (totalTokens(usage) === null ? null : formatTokens(count));
  const abilities = Object.entries(live.capabilities)
    .filter(([, can]) => can === true)
    .map(([name]) => name.replaceAll("_", " "));
  return (
    <div className="details">
      <h3>Session</h3>
      <dl>
        <Fact name="Agent">{session.agent}</Fact>
        <Fact name="Workspace">{session.cwd}</Fact>
        <Fact name="Connection">{CONNECTION_LABELS[live.connection]}</Fact>
        <Fact name="Started">{formatDateTime(session.created)}</Fact>
        <Fact name="Runs">{session.runs}</Fact>
        <Fact name="Frames">{session.frames}</Fact>
        {session.parent !== null && session.parent !== "" && <SessionFact name="Sub-agent of" id={session.parent} />}
        {session.forked_from !== null && <SessionFact name="Forked from" id={session.forked_from} />}
        {session.imported && <Fact name="Imported">from the agent's own files</Fact>}
        <Fact name="Id">
          <code>{session.id}</code> <CopyButton text={() => session.id} name="Copy the session's id" />
        </Fact>
        {abilities.length > 0 && <Fact name="Capabilities">{abilities.join(", ")}</Fact>}
      </dl>
      {live.policy_notice !== null && <p className="soft">{live.policy_notice}</p>}
      {state.settings.length > 0 && (
        <>
          <h3>Settings</h3>
          <dl>
            {state.settings.map((setting) => (
              <Fact key={setting.id} name={setting.name}>
                {settingValueLabel(setting)}
              </Fact>
            ))}
          </dl>
        </>
      )}
      <h3>Usage</h3>
      <dl>
        <Fact name="Context">{used === null ? null : `${contextSizes(usage)}, ${Math.round(used * 100)} %`}</Fact>
        <Fact name="Cost">{usage.cost && formatMoney(usage.cost.amount, usage.cost.currency)}</Fact>
      </dl>
      <h3>Tokens in the last run</h3>
      <dl>
        <Fact name="Input">{tokens(usage.input_tokens)}</Fact>
        <Fact name="Cached">{tokens(usage.cached_tokens)}</Fact>
        <Fact name="Output">{tokens(usage.output_tokens)}</Fact>
        <Fact name="Thoughts">{tokens(usage.thought_tokens)}</Fact>
        <Fact name="Total">{tokens(usage.total_tokens)}</Fact>
      </dl>
      {state.sub_agents.length > 0 && (
        <>
          <h3>Sub-agents</h3>
          <dl>
            {state.sub_agents.map((agent) => (
              <SubAgentFact key={agent.session_id} agent={agent} of={session} />
            ))}
          </dl>
        </>
      )}
    </div>
  );
}

/** Another session, linked if it is listed. */
function SessionFact({ name, id }: { name: string; id: string }) {
  const other = useStore(({ list }) => list?.sessions.find((one) => one.id === id));
  return (
    <Fact name={name}>
      {other === undefined ? id : <Link to={{ view: "session", id }}>{sessionTitle(other)}</Link>}
    </Fact>
  );
}

/** A sub-agent, linked to its own session if there is one. */
function SubAgentFact({ agent, of }: { agent: SubAgent; of: SessionItem }) {
  const own = useStore(({ list }) =>
    list?.sessions.find((one) => one.agent === of.agent && one.agent_session_id === agent.session_id),
  );
  const name = agent.title ?? agent.session_id;
  return (
    <Fact name={own === undefined ? name : <Link to={{ view: "session", id: own.id }}>{name}</Link>}>
      {[agent.state, agent.description].filter(Boolean).join(": ")}
    </Fact>
  );
}

function formatTokens(count: number | null): string | null {
  return count === null ? null : `${formatCount(count)} ${count === 1 ? "token" : "tokens"}`;
}

function Fact({ name, children }: { name: React.ReactNode; children: React.ReactNode }) {
  return (
    <div>
      <dt>{name}</dt>
      <dd>{children ?? <span className="soft">not reported</span>}</dd>
    </div>
  );
}
