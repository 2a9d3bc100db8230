// Controls: what the page wants done, and the answers that belong to them.

import type { AnyControl, ErrorBody, ResultOf } from "../protocol";

export type RequestType = keyof ResultOf;
type RequestOfType<T extends RequestType> = Extract<AnyControl, { type: T }>;

/** What a control of this type takes, without what the socket puts in itself. */
export type RequestFields<T extends RequestType> = Omit<RequestOfType<T>, "type" | "id" | "command_id">;

/** The server did not do it, and says why. */
export class RequestError extends Error {
  override readonly name = "Refused";

  constructor(readonly body: ErrorBody) {
    super(body.message);
  }
}

/** The agent could not be had. Of one session, that is told above its conversation for as long as it is so. */
export function isAgentFailure(problem: unknown): boolean {
  return problem instanceof RequestError && (problem.body.kind === "agent" || problem.body.kind === "timeout");
}

/** Those that only ask. The others get a `command_id`: one that is sent again after a reconnect is done once. */
const ASKING: ReadonlySet<RequestType> = new Set<RequestType>([
  "session.list",
  "session.history",
  "session.row",
  "session.contents",
  "session.diffs",
  "session.export",
  "workspace.recent",
  "policy.list",
  "policy.preview",
  "agent.list",
  "agent.test",
  "token.list",
  "search",
  "usage",
  "files.list",
  "files.read",
  "transcripts.list",
  "settings.get",
]);

export function changesSomething(type: RequestType): boolean {
  return !ASKING.has(type);
}

/** A random id. `crypto.randomUUID` is missing where the page came over plain HTTP from another machine. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
