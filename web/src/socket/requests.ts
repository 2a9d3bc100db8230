// Requests of the page to the server, and their errors.

import { READ_ONLY, type AnyRequest, type ErrorDetails, type RequestType } from "../protocol";

export type { RequestType };
type RequestOfType<T extends RequestType> = Extract<AnyRequest, { type: T }>;

/** The fields of a request without those that the socket adds. */
export type RequestFields<T extends RequestType> = Omit<RequestOfType<T>, "type" | "id" | "command_id">;

/** An error that the server answered. */
export class RequestError extends Error {
  override readonly name = "Refused";

  constructor(readonly body: ErrorDetails) {
    super(body.message);
  }
}

/** True if the agent failed to start or to answer; the notice above the conversation shows that. */
export function isAgentFailure(problem: unknown): boolean {
  return problem instanceof RequestError && (problem.body.kind === "agent" || problem.body.kind === "timeout");
}

/** Requests that change something get a `command_id`: sent again after a reconnect, they are carried out once. */
export function changesSomething(type: RequestType): boolean {
  return !READ_ONLY.has(type);
}

/** A random id. `crypto.randomUUID` does not exist on pages from another machine over plain HTTP. */
export function newId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
