// The effect of a request, from what the agent sent. Pure.

import type { DiffItem, ToolContent } from "../protocol";
import { shellQuote } from "../terminal/command";

export interface Request {
  /** The command line, or null if no command will run. */
  readonly command: string | null;
  readonly folder: string | null;
  readonly diffs: readonly DiffItem[];
  readonly texts: readonly string[];
  /** The rest of the request, shown in full: nobody should approve what they cannot see. */
  readonly rest: Readonly<Record<string, unknown>> | unknown[] | string | null;
}

const COMMAND_FIELDS = ["command", "cmd", "script"];
const FOLDER_FIELDS = ["cwd", "workdir", "working_directory", "workingDirectory"];

export function requestOf(request: { readonly content: readonly ToolContent[]; readonly raw_input: unknown }): Request {
  const diffs: DiffItem[] = [];
  const texts: string[] = [];
  for (const item of request.content) {
    if (item.type === "diff") diffs.push(item);
    if (item.type === "content" && item.content.type === "text") texts.push(item.content.text);
  }
  const { command, folder, rest } = split(request.raw_input);
  return { command, folder, diffs, texts, rest };
}

function split(raw: unknown): Pick<Request, "command" | "folder" | "rest"> {
  if (Array.isArray(raw)) return { command: null, folder: null, rest: raw };
  if (typeof raw === "string") return { command: null, folder: null, rest: raw };
  if (typeof raw !== "object" || raw === null) return { command: null, folder: null, rest: null };
  const rest: Record<string, unknown> = { ...raw };
  const command = takeField(rest, COMMAND_FIELDS, commandOf);
  const args = rest.args;
  let line = command;
  if (command !== null && isStringArray(args)) {
    line = [command, ...args.map(shellQuote)].join(" ");
    delete rest.args;
  }
  const folder = takeField(rest, FOLDER_FIELDS, (value) => (typeof value === "string" ? value : null));
  return { command: line, folder, rest: Object.keys(rest).length > 0 ? rest : null };
}

function takeField(
  from: Record<string, unknown>,
  names: readonly string[],
  read: (value: unknown) => string | null,
): string | null {
  for (const name of names) {
    const value = read(from[name]);
    if (value === null) continue;
    delete from[name];
    return value;
  }
  return null;
}

function commandOf(value: unknown): string | null {
  if (typeof value === "string" && value !== "") return value;
  if (!isStringArray(value) || value.length === 0) return null;
  const [shell, flag, script] = value;
  // Agents wrap a command line in `bash -lc "…"`; people want to read the line itself.
  if (value.length === 3 && /(^|\/)(ba|z|da)?sh$/.test(shell ?? "") && /^-l?c$/.test(flag ?? "")) return script ?? null;
  return value.map(shellQuote).join(" ");
}

function isStringArray(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((one) => typeof one === "string");
}
