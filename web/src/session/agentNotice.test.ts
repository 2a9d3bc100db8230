import { expect, test } from "vitest";

import { availableActions } from "../header/useSessionActions";
import type { ConnectionStatus, SessionState } from "../protocol";
import { agentNotice } from "./agentNotice";

const ABLE = {
  load: true,
  resume: true,
  fork: true,
  close: true,
  image: false,
  audio: false,
  embedded_context: false,
  steering: false,
  list: false,
  delete: false,
  additional_directories: false,
  system_prompt: false,
  mcp_http: false,
  mcp_sse: false,
  logout: false,
  protocol_version: 1,
  agent_name: null,
  agent_version: null,
  sandbox: null,
};
const UNABLE = { ...ABLE, load: false, resume: false, fork: false };

function live(connection: ConnectionStatus, given: Partial<SessionState> = {}): SessionState {
  return {
    connection,
    status: "idle",
    reason: "",
    failure: null,
    capabilities: ABLE,
    queue: [],
    can_resume: true,
    policy_notice: null,
    worktree: null,
    ...given,
  };
}

test("nothing is said while the agent is there and well", () => {
  expect(agentNotice(live("connected"))).toBeNull();
});

test("an agent that is gone is said, with why, and can be restarted", () => {
  const gone = live("disconnected", { reason: "exited with 1" });
  expect(agentNotice(gone)).toEqual({ tone: "bad", text: "exited with 1", remedies: ["reload", "restart"] });
  expect(availableActions(gone)).toEqual(expect.arrayContaining(["restart", "reload", "continue"]));
});

test("the most helpful action is offered first", () => {
  const problem = { kind: "", category: "", message: "no such program", guidance: "", stderr: "", install: null };
  const helps = (...actions: string[]) => agentNotice(live("error", { failure: { ...problem, actions } }))?.remedies;
  expect(helps("install", "settings", "restart")).toEqual(["settings", "reload", "restart"]);
  expect(helps("login", "restart")).toEqual(["login", "reload", "restart"]);
  expect(helps("restart", "settings")).toEqual(["reload", "restart", "settings"]);
});

test("an action that the agent does not support is not offered", () => {
  const offered = availableActions(live("connected", { capabilities: UNABLE }));
  expect(offered).not.toContain("fork");
  expect(offered).not.toContain("reload");
});

test("an agent at work in a terminal is reported, and the session can be continued once it has ended", () => {
  const watched = live("watched", { can_resume: true });
  expect(agentNotice(watched)?.text).toContain("Another program is working");
  expect(availableActions(watched)).toContain("continue");
  expect(availableActions(watched)).not.toContain("stop");
});

test("a session that another program has open is only to be looked at", () => {
  expect(availableActions(live("elsewhere"))).toEqual(["rename", "link", "export", "jsonl", "frames"]);
});
