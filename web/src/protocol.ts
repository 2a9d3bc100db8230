// Made by scripts/generate_page_types.py from the types in src/dragoman/bridge. `make types` makes it anew; a change
// made here by hand is lost.

export const PROTOCOL = 1;

export interface TextBlock {
  type: "text";
  text: string;
}

export interface ImageBlock {
  type: "image";
  mime_type: string;
  /** base64 */
  data: string;
  uri: string | null;
}

export interface AudioBlock {
  type: "audio";
  mime_type: string;
  data: string;
}

/** A file or the like, with its content: `text`, or `blob` in base64. */
export interface ResourceBlock {
  type: "resource";
  uri: string;
  mime_type: string | null;
  text: string | null;
  blob: string | null;
}

export interface LinkBlock {
  type: "resource_link";
  uri: string;
  name: string;
  title: string | null;
  description: string | null;
  mime_type: string | null;
  size: number | null;
}

/** Content of a kind that is not known here. */
export interface UnknownBlock {
  type: "unknown";
  kind: string;
}

export type Block = TextBlock | ImageBlock | AudioBlock | ResourceBlock | LinkBlock | UnknownBlock;

export interface ContentItem {
  type: "content";
  content: Block;
}

/** `old_text` is None for a file that is new. */
export interface DiffItem {
  type: "diff";
  path: string;
  old_text: string | null;
  new_text: string;
}

export interface TerminalItem {
  type: "terminal";
  terminal_id: string;
}

export type ToolContent = ContentItem | DiffItem | TerminalItem;

export interface Location {
  path: string;
  line: number | null;
}

export interface Cost {
  amount: number;
  currency: string;
}

/** Figures as the agent reported them; None is "not reported". */
export interface Usage {
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  thought_tokens: number | null;
  total_tokens: number | null;
  context_used: number | null;
  context_size: number | null;
  cost: Cost | null;
}

export type RunStatus = "running" | "success" | "cancelled" | "error" | "interrupted";

/** What went wrong, for a person. `kind` is the error's own name, `guidance` what can be done now. */
export interface Problem {
  kind: string;
  category: string;
  message: string;
  guidance: string;
  stderr: string;
  /** of login, restart, restart_and_reload, install, settings */
  actions: readonly string[];
  /** the line that installs what is missing */
  install: string | null;
}

export interface Run {
  table: "runs";
  id: string;
  place: number;
  time: number;
  status: RunStatus;
  stop_reason: string | null;
  /** why it was cut, or what the agent's error said */
  reason: string | null;
  cancel_requested: boolean;
  usage: Usage | null;
  ended_time: number | null;
}

export interface Message {
  table: "messages";
  id: string;
  place: number;
  kind: "user" | "assistant" | "thought";
  run_id: string | null;
  time: number;
  replayed: boolean;
  text: string;
  blocks: readonly Block[];
  ended: boolean;
}

export interface ToolCall {
  table: "tool_calls";
  id: string;
  place: number;
  tool_call_id: string;
  run_id: string | null;
  time: number;
  replayed: boolean;
  title: string;
  name: string | null;
  /** read, edit, delete, move, search, execute, think, fetch, switch_mode, other */
  kind: string;
  /** pending, in_progress, completed, failed */
  status: string;
  content: readonly ToolContent[];
  locations: readonly Location[];
  raw_input: unknown;
  raw_output: unknown;
  /** the agent's id of the tool call whose sub-agent made this one */
  parent_id: string | null;
  ended_time: number | null;
  /** the end of what a command of the agent's own wrote, where it tells that */
  output: string | null;
  /** it wrote more than that */
  truncated: boolean;
  exit_code: number | null;
  signal: string | null;
  /** some of it was left out; `session.row` gives it whole */
  cut: boolean;
}

export interface PlanEntry {
  content: string;
  priority: string;
  status: string;
}

export interface Plan {
  table: "plans";
  /** empty for the one plan of most agents */
  id: string;
  entries: readonly PlanEntry[];
  markdown: string | null;
  uri: string | null;
}

/** An answer that the agent offers. `kind`: allow_once, allow_always, reject_once or reject_always. */
export interface Option {
  option_id: string;
  name: string;
  kind: string;
}

/** How something that the agent asked was decided: by a rule, a person, a default, a time limit. */
export interface Decision {
  decision: string | null;
  decided_by: string | null;
  reason: string | null;
  rule: string | null;
  layer: string | null;
  remembered: readonly string[];
}

export interface Permission {
  table: "permissions";
  id: string;
  place: number;
  run_id: string | null;
  time: number;
  options: readonly Option[];
  /** agent, files or terminals */
  origin: string;
  tool_call_row: string | null;
  tool_call_id: string | null;
  title: string;
  kind: string;
  content: readonly ToolContent[];
  locations: readonly Location[];
  raw_input: unknown;
  outcome: "pending" | "selected" | "cancelled" | "failed";
  option_id: string | null;
  resolved_time: number | null;
  decided: Decision;
  cut: boolean;
}

/** A file that the agent read or wrote through us, or wanted to. */
export interface FileCall {
  table: "file_calls";
  id: string;
  place: number;
  run_id: string | null;
  time: number;
  operation: "read" | "write";
  path: string;
  line: number | null;
  limit: number | null;
  status: string;
  size: number | null;
  diff: DiffItem | null;
  error: string | null;
  ended_time: number | null;
  decided: Decision;
  cut: boolean;
}

/** A command that the agent ran through us. Its output while it runs: the stream `terminal`, by `terminal_id`. */
export interface Terminal {
  table: "terminals";
  id: string;
  place: number;
  run_id: string | null;
  time: number;
  command: string;
  args: readonly string[];
  cwd: string | null;
  terminal_id: string | null;
  status: string;
  exit_code: number | null;
  signal: string | null;
  output: string | null;
  output_bytes: number | null;
  truncated: boolean;
  error: string | null;
  ended_time: number | null;
  decided: Decision;
}

/** What the agent asked the user. `schema` is the JSON Schema of the form, as the agent wrote it. */
export interface Question {
  table: "questions";
  id: string;
  place: number;
  run_id: string | null;
  time: number;
  /** form or url */
  mode: string;
  message: string;
  tool_call_id: string | null;
  schema: unknown;
  url: string | null;
  /** pending, accept, decline, cancel or failed */
  action: string;
  content: unknown;
  answered_time: number | null;
  completed_time: number | null;
  decided: Decision;
}

/** Something that the agent tells of itself: a notice, or that it compacts what it remembers. */
export interface Notice {
  table: "notices";
  id: string;
  place: number;
  run_id: string | null;
  time: number;
  kind: "notice" | "compaction";
  severity: string;
  title: string;
  text: string | null;
  status: string | null;
  ended_time: number | null;
}

export interface Choice {
  value: string;
  name: string;
  description: string | null;
}

/** Something the session can be switched between. `category`: mode, model, thought_level, or the agent's own. */
export interface Setting {
  id: string;
  name: string;
  category: string | null;
  current: string | boolean | null;
  choices: readonly Choice[];
}

/** A slash command that the agent offers. */
export interface Command {
  name: string;
  description: string;
  hint: string | null;
}

export interface SubAgent {
  session_id: string;
  title: string | null;
  description: string | null;
  state: string | null;
}

/** What a session is set to now. */
export interface State {
  title: string | null;
  commands: readonly Command[];
  settings: readonly Setting[];
  sub_agents: readonly SubAgent[];
  usage: Usage;
}

export type Table = "runs" | "messages" | "tool_calls" | "plans" | "permissions" | "file_calls" | "terminals" | "questions" | "notices";

export type Row = Run | Message | ToolCall | Plan | Permission | FileCall | Terminal | Question | Notice;

/** Each table in the order of `place`. */
export interface Rows {
  runs: readonly Run[];
  messages: readonly Message[];
  tool_calls: readonly ToolCall[];
  plans: readonly Plan[];
  permissions: readonly Permission[];
  file_calls: readonly FileCall[];
  terminals: readonly Terminal[];
  questions: readonly Question[];
  notices: readonly Notice[];
}

export type Connection = "none" | "starting" | "connected" | "disconnected" | "error" | "elsewhere" | "watched";

export type Status = "idle" | "running" | "waiting" | "error";

/** What the session's agent can do, and what it says it is; all False while it is not connected. */
export interface Abilities {
  load: boolean;
  resume: boolean;
  fork: boolean;
  close: boolean;
  image: boolean;
  audio: boolean;
  embedded_context: boolean;
  steering: boolean;
  list: boolean;
  delete: boolean;
  additional_directories: boolean;
  system_prompt: boolean;
  mcp_http: boolean;
  mcp_sse: boolean;
  logout: boolean;
  protocol_version: number;
  agent_name: string | null;
  agent_version: string | null;
}

/** A prompt that waits for its turn. */
export interface Queued {
  id: string;
  text: string;
  /** what goes with it, in words */
  attachments: readonly string[];
  time: number;
}

/**
 * How it stands with a session right now.
 *
 * `connection`: `none` for a session that nobody has open, `elsewhere` for one that another process has, `watched` for
 * one in which an agent is at work that Dragoman did not start, as far as its transcript tells. `reason` says in words
 * why it is as it is, and `problem` what went wrong, with the agent's last lines on stderr.
 */
export interface Live {
  connection: Connection;
  status: Status;
  reason: string;
  problem: Problem | null;
  abilities: Abilities;
  queue: readonly Queued[];
  /** it is known how it could be continued */
  continuable: boolean;
  /** why the workspace's own rules do not count */
  policy_notice: string | null;
}

/** A session as lists show it. `status` is that of its last run; `waiting` what waits for a person. */
export interface SessionItem {
  id: string;
  agent: string;
  title: string | null;
  prompt: string;
  cwd: string;
  created: number;
  updated: number;
  runs: number;
  frames: number;
  run_status: RunStatus | null;
  connection: Connection;
  status: Status;
  waiting: number;
  imported: boolean;
  /** the agent's own id: what its sub-agents are named by in `State` */
  agent_session_id: string;
  /** the session that this one is a sub-agent of; it need not be here */
  parent: string | null;
}

/** Something that waits for a person: a permission or a question, and the session it is of. */
export interface Waiting {
  session: SessionItem;
  permission: Permission | null;
  question: Question | null;
}

/**
 * A frame as it went over the wire. `frame` is its own bytes as text.
 *
 * One of the kind `hidden` is not shown, and has none: it is there so that who counts the frames counts it too.
 */
export interface Frame {
  cursor: string;
  connection_id: string;
  n: number;
  at: number;
  origin: string;
  kind: string;
  frame: string;
}

/** An agent that could be started here. */
export interface AgentItem {
  id: string;
  name: string;
  description: string;
  /** installed, downloads, missing */
  state: string;
  version: string | null;
  path: string | null;
  command: string;
  args: readonly string[];
  /** names alone */
  env: readonly string[];
  has_key: boolean;
  /** made or changed by the user */
  own: boolean;
  default: boolean;
  problem: string | null;
  hint: string | null;
  install: string | null;
  note: string | null;
  website: string | null;
}

export type Scope = "view" | "prompt" | "admin";

export type Stream = "sessions" | "session" | "permissions" | "terminal" | "agents";

export interface Limits {
  message_bytes: number;
  messages_per_second: number;
  subscriptions: number;
}

/** The first message. `scope` is what the client's token allows; `cursor` the end of the journal now. */
export interface Hello {
  type: "hello";
  version: string;
  protocol: number;
  journal: string;
  cursor: string;
  scope: Scope;
  capabilities: readonly string[];
  limits: Limits;
  time: number;
}

/** The sessions with the latest first; `more` when there are older ones (`session.list`). */
export interface SessionsSnapshot {
  type: "snapshot";
  stream: "sessions";
  cursor: string;
  sessions: readonly SessionItem[];
  more: boolean;
}

export interface SessionsUpdate {
  type: "update";
  stream: "sessions";
  cursor: string;
  changed: readonly SessionItem[];
  removed: readonly string[];
}

/**
 * `resumed`: what the client has is still right, and what came since follows; `rows` and `state` are empty then, and do
 * not count.
 *
 * `more`: there are older rows than these (`session.history`, with `before`).
 */
export interface SessionSnapshot {
  type: "snapshot";
  stream: "session";
  id: string;
  cursor: string;
  resumed: boolean;
  session: SessionItem;
  live: Live;
  state: State;
  rows: Rows;
  more: boolean;
  before: number;
}

/** The row is now this: a new one, or another state of one that is known by its id. */
export interface Put {
  op: "put";
  row: Row;
}

export interface Remove {
  op: "remove";
  table: Table;
  id: string;
}

/** More of a message that goes on. A message that ended is `put` as a whole. */
export interface Append {
  op: "append";
  message_id: string;
  text: string;
  blocks: readonly Block[];
}

export interface PutSession {
  op: "session";
  session: SessionItem;
}

export interface PutState {
  op: "state";
  state: State;
}

export interface PutLive {
  op: "live";
  live: Live;
}

export type Change = Put | Remove | Append | PutSession | PutState | PutLive;

export interface SessionUpdate {
  type: "update";
  stream: "session";
  id: string;
  cursor: string;
  changes: readonly Change[];
}

/**
 * For who subscribed with `frames`: frames in place of rows. The first comes at once, also when there is nothing.
 *
 * `live` is there when it is otherwise than it was last told: it is how it stood when these frames were there.
 */
export interface FramesUpdate {
  type: "update";
  stream: "session";
  id: string;
  cursor: string;
  frames: readonly Frame[];
  live: Live | null;
  /** more that is stored follows */
  more: boolean;
}

/** All that waits for a person, in all sessions; the oldest first. */
export interface PermissionsSnapshot {
  type: "snapshot";
  stream: "permissions";
  cursor: string;
  waiting: readonly Waiting[];
}

/** All that waits now, in place of what was told before. */
export interface PermissionsUpdate {
  type: "update";
  stream: "permissions";
  cursor: string;
  waiting: readonly Waiting[];
}

/**
 * `id` is `<session id>/<terminal id>`. `data` is what it wrote, in base64, from `offset` on; what came before is gone.
 * The cursor is the offset after it.
 */
export interface TerminalSnapshot {
  type: "snapshot";
  stream: "terminal";
  id: string;
  cursor: string;
  offset: number;
  data: string;
  terminal: Terminal | null;
  /** `terminal.input` reaches it */
  typable: boolean;
  ended: boolean;
}

export interface TerminalUpdate {
  type: "update";
  stream: "terminal";
  id: string;
  cursor: string;
  offset: number;
  data: string;
  ended: boolean;
}

export interface AgentsSnapshot {
  type: "snapshot";
  stream: "agents";
  cursor: string;
  agents: readonly AgentItem[];
}

/** All agents, in place of what was told before. */
export interface AgentsUpdate {
  type: "update";
  stream: "agents";
  cursor: string;
  agents: readonly AgentItem[];
}

/**
 * A stream is over, and not because the client wanted it: the session was deleted, or it could not be followed. Who
 * unsubscribes is told nothing more of it, this neither.
 *
 * `kind`: of the error, where it is one (`ErrorBody`).
 */
export interface Ended {
  type: "ended";
  stream: Stream;
  id: string;
  reason: string;
  kind: string | null;
}

/** The answer to a control that was done. What `result` holds is the control's own. */
export interface Result {
  type: "result";
  id: string;
  result: unknown;
}

/**
 * `kind` is for programs, `message` and `guidance` for people; `field` names what is wrong in the request.
 *
 * `error` is the own name of the error that it was, where it was one, and `stderr` the agent's last lines on it.
 */
export interface ErrorBody {
  kind: string;
  message: string;
  guidance: string;
  field: string | null;
  retry_after: number | null;
  error: string | null;
  stderr: string;
}

/** The answer to a control that was not done; `id` is None where the message could not be read at all. */
export interface Failure {
  type: "error";
  id: string | null;
  error: ErrorBody;
}

export interface Pong {
  type: "pong";
  time: number;
}

/** Of controls that have nothing to tell but that they are done. */
export type Done = Record<string, never>;

/** `live`: how it stands with the session now, with what its agent can do. */
export interface Opened {
  session_id: string;
  live: Live;
}

/**
 * The run that began, or the id of what waits in the queue. `how`: started, queued, steered, or cancelled_first (the
 * agent cannot be steered: what it was doing was cancelled).
 */
export interface Prompted {
  run_id: string | null;
  queued_id: string | null;
  how: "started" | "queued" | "steered" | "cancelled_first";
}

export interface Exported {
  file_name: string;
  mime_type: string;
  text: string;
}

export interface Listed {
  sessions: readonly SessionItem[];
  more: boolean;
}

export interface History {
  rows: Rows;
  more: boolean;
  before: number;
}

export interface WholeRow {
  row: Row;
}

/** `added` and `removed`: lines, over all its changes. `created`: it was not there before. */
export interface ChangedFile {
  path: string;
  added: number;
  removed: number;
  created: boolean;
  changes: number;
}

/**
 * `files`: the one that was changed last comes first. `terminals`: in their order, and without their output, which
 * `session.row` gives. `more_…`: how many came before these, and are not listed.
 */
export interface Contents {
  files: readonly ChangedFile[];
  more_files: number;
  terminals: readonly Terminal[];
  more_terminals: number;
}

/** In their order. `more`: how many came before these, and are too long to be told. */
export interface FileDiffs {
  diffs: readonly DiffItem[];
  more: number;
}

export interface WorkspaceItem {
  cwd: string;
  sessions: number;
  updated: number;
  /** None: it has no rules of its own */
  trusted: boolean | null;
  notice: string | null;
}

export interface Workspaces {
  workspaces: readonly WorkspaceItem[];
  home: string;
}

export interface Trusted {
  trusted: boolean | null;
  notice: string | null;
}

/** False: someone else was first, or it was withdrawn; nothing was done by this answer. */
export interface Answered {
  accepted: boolean;
}

/** A rule as it reads. `layer` is where it stands; only those with an `id` can be revoked here. */
export interface RuleItem {
  id: string | null;
  answer: string;
  text: string;
  layer: string;
  source: string;
  workspace: string | null;
  at: number | null;
}

export interface Policy {
  access: string;
  rules: readonly RuleItem[];
  notice: string | null;
}

/** The rules that an "always" becomes, as they read; where there are none, `problem` says why. */
export interface Preview {
  rules: readonly string[];
  problem: string;
}

export interface Agents {
  agents: readonly AgentItem[];
}

export interface LoginMethod {
  id: string;
  name: string;
  description: string;
  kind: string;
  /** to be run in a terminal, where that is how it is done */
  command: string | null;
}

/** `ok`, or what went wrong and what to do about it. */
export interface Tested {
  ok: boolean;
  name: string | null;
  version: string | null;
  message: string;
  guidance: string;
  stderr: string;
  methods: readonly LoginMethod[];
}

export interface Login {
  methods: readonly LoginMethod[];
  done: boolean;
  message: string;
}

export interface TokenItem {
  id: string;
  name: string;
  scope: Scope;
  created: number;
  used: number | null;
  /** the one that this client uses */
  current: boolean;
}

export interface Tokens {
  tokens: readonly TokenItem[];
}

export interface TokenMade {
  token: string;
  item: TokenItem;
}

/** `marks` are what matched within the snippet: from, to. */
export interface Hit {
  session: SessionItem;
  row_id: string;
  kind: string;
  at: number;
  snippet: string;
  marks: readonly (readonly [number, number])[];
}

export interface Found {
  hits: readonly Hit[];
}

/** `reported`: of how many of the runs each figure is made. */
export interface Sum {
  key: string | null;
  runs: number;
  input_tokens: number | null;
  cached_tokens: number | null;
  output_tokens: number | null;
  thought_tokens: number | null;
  total_tokens: number | null;
  cost: Readonly<Record<string, number>>;
  reported: Readonly<Record<string, number>>;
}

export interface UsageTold {
  by: string;
  sums: readonly Sum[];
  total: Sum;
}

/** Paths within the workspace. `complete`: all files were looked at. */
export interface Files {
  cwd: string;
  paths: readonly string[];
  complete: boolean;
}

export interface FileText {
  path: string;
  text: string;
  line: number;
  /** of the whole file */
  lines: number;
  truncated: boolean;
}

/** An agent whose own files can be read. `mode`: off, ask (nothing is read before someone agrees) or on. */
export interface ProviderItem {
  provider: string;
  name: string;
  mode: string;
  /** that it has */
  files: number;
  /** bytes */
  size: number;
  /** of it that are here */
  sessions: number;
  /** files that have something new, while they are read */
  waiting: number;
  problem: string | null;
}

export interface Transcripts {
  providers: readonly ProviderItem[];
}

export interface SettingItem {
  name: string;
  value: string | boolean | number | number | null;
  default: string | boolean | number | number | null;
  /** what set it: a file and line, a variable; None is the default */
  where: string | null;
  editable: boolean;
  description: string;
  choices: readonly string[];
}

export interface Settings {
  settings: readonly SettingItem[];
  home: string;
  version: string;
}

/** A file of the workspace, by its path in it. */
export interface FileAttachment {
  type: "file";
  path: string;
}

export interface ImageAttachment {
  type: "image";
  mime_type: string;
  /** base64 */
  data: string;
  name?: string;
}

export interface AudioAttachment {
  type: "audio";
  mime_type: string;
  data: string;
  name?: string;
}

/** A text that is no file of the workspace: one that was dropped, pasted, or selected on a web page (`uri`). */
export interface TextAttachment {
  type: "text";
  name: string;
  text: string;
  uri?: string | null;
}

export type Attachment = FileAttachment | ImageAttachment | AudioAttachment | TextAttachment;

export interface Ping {
  type: "ping";
}

/** `id`: of the session, or `<session id>/<terminal id>`. `limit`: rows of the snapshot, the newest ones. */
export interface Subscribe {
  type: "subscribe";
  stream: Stream;
  id?: string;
  after?: string | null;
  frames?: boolean;
  limit?: number;
}

export interface Unsubscribe {
  type: "unsubscribe";
  stream: Stream;
  id?: string;
}

/** `command_id`: chosen by the client, for what must be done once however often it is sent. */
export interface Control {
  id: string;
  command_id?: string | null;
}

/** A new session. Result: `Opened`. */
export interface SessionOpen extends Control {
  type: "session.open";
  /** the default one where it is left out */
  agent?: string | null;
  cwd: string;
  additional?: readonly string[];
  access?: string | null;
  model?: string | null;
  mode?: string | null;
  options?: Readonly<Record<string, string | boolean>>;
  reasoning_effort?: string | null;
  system_prompt?: string | null;
  network?: boolean | null;
  web_search?: boolean | null;
}

/**
 * `when` the session is busy: `queue` it, do it `now` (by steering, or by a cancel first), or `refuse`.
 *
 * Result: `Prompted`.
 */
export interface SessionPrompt extends Control {
  type: "session.prompt";
  session_id: string;
  text: string;
  attachments?: readonly Attachment[];
  when?: "queue" | "now" | "refuse";
  /** of the run that it begins, where the client wants to choose it */
  run_id?: string | null;
}

/** `run_id`: that run alone; where another one runs, nothing is done. */
export interface SessionCancel extends Control {
  type: "session.cancel";
  session_id: string;
  run_id?: string | null;
}

export interface SessionClose extends Control {
  type: "session.close";
  session_id: string;
}

export interface SessionDelete extends Control {
  type: "session.delete";
  session_id: string;
}

/** Result: `Opened`. */
export interface SessionFork extends Control {
  type: "session.fork";
  session_id: string;
}

/** Continue it; the agent tells its history again. Result: `Opened`. */
export interface SessionLoad extends Control {
  type: "session.load";
  session_id: string;
}

/** Continue it, in the way that the agent can. Result: `Opened`. */
export interface SessionResume extends Control {
  type: "session.resume";
  session_id: string;
}

/**
 * End the agent and start it anew. With `reload` the conversation goes on; without, the agent remembers nothing of it,
 * though we do. Result: `Opened`.
 */
export interface SessionRestart extends Control {
  type: "session.restart";
  session_id: string;
  reload?: boolean;
}

export interface SessionSetOption extends Control {
  type: "session.set_option";
  session_id: string;
  option_id: string;
  value: string | boolean;
}

export interface SessionSetMode extends Control {
  type: "session.set_mode";
  session_id: string;
  mode: string;
}

export interface SessionRename extends Control {
  type: "session.rename";
  session_id: string;
  title: string;
}

/** Result: `Exported`. */
export interface SessionExport extends Control {
  type: "session.export";
  session_id: string;
  format?: "markdown" | "jsonl";
}

/** Older sessions, and with them their sub-agents. Result: `Listed`. */
export interface SessionList extends Control {
  type: "session.list";
  before?: number | null;
  limit?: number;
  agent?: string | null;
  cwd?: string | null;
}

/** Rows whose `place` is before this one, the newest of them. Result: `History`. */
export interface SessionHistory extends Control {
  type: "session.history";
  session_id: string;
  before: number;
  limit?: number;
}

/** One row, with nothing cut. Result: `WholeRow`. */
export interface SessionRow extends Control {
  type: "session.row";
  session_id: string;
  table: Table;
  row_id: string;
}

/**
 * What was changed and run in the rows whose `place` is before this one; in one run alone, where it is named. Result:
 * `Contents`.
 */
export interface SessionContents extends Control {
  type: "session.contents";
  session_id: string;
  before: number;
  run_id?: string | null;
}

/** The changes of one file, of the same rows. Result: `FileDiffs`. */
export interface SessionDiffs extends Control {
  type: "session.diffs";
  session_id: string;
  path: string;
  before: number;
  run_id?: string | null;
}

/** Result: `Prompted`. */
export interface QueueAdd extends Control {
  type: "queue.add";
  session_id: string;
  text: string;
  attachments?: readonly Attachment[];
}

export interface QueueEdit extends Control {
  type: "queue.edit";
  session_id: string;
  queued_id: string;
  text: string;
}

/** To this place among those that wait, counted from 0. */
export interface QueueMove extends Control {
  type: "queue.move";
  session_id: string;
  queued_id: string;
  to: number;
}

/** Send it now, before the others. What runs is cancelled first, as `how` says. Result: `Prompted`. */
export interface QueueSend extends Control {
  type: "queue.send";
  session_id: string;
  queued_id: string;
}

export interface QueueRemove extends Control {
  type: "queue.remove";
  session_id: string;
  queued_id: string;
}

/** Result: `Workspaces`. */
export interface WorkspaceRecent extends Control {
  type: "workspace.recent";
  limit?: number;
}

/** Whether the workspace's own rules count. Result: `Trusted`. */
export interface WorkspaceTrust extends Control {
  type: "workspace.trust";
  cwd: string;
  trust?: boolean;
}

/**
 * One of the agent's options by its id; or `answer`, which takes the option that means it.
 *
 * `always`: from now on, for this workspace; that makes a rule, and needs the scope `admin`. With another one the
 * agent's own option for it may be taken, and no rule is made of it. `by`: who decided, a person or a program. Result:
 * `Answered`.
 */
export interface PermissionAnswer extends Control {
  type: "permission.answer";
  session_id: string;
  permission_id: string;
  option_id?: string | null;
  answer?: "allow" | "reject" | "cancel" | null;
  always?: boolean;
  by?: "person" | "callback";
}

/** `by`: who answered, a person or a program. Result: `Answered`. */
export interface QuestionAnswer extends Control {
  type: "question.answer";
  session_id: string;
  question_id: string;
  action: "accept" | "decline" | "cancel";
  content?: Readonly<Record<string, unknown>> | null;
  by?: "person" | "callback";
}

/** The rules in force, of a workspace or everywhere. Result: `Policy`. */
export interface PolicyList extends Control {
  type: "policy.list";
  cwd?: string | null;
}

/** What "always" would be remembered as. Result: `Preview`. */
export interface PolicyPreview extends Control {
  type: "policy.preview";
  session_id: string;
  permission_id: string;
  answer?: "allow" | "reject";
}

/** A rule for a workspace, in the words of `dragoman policy`: what it is about, field by field. Result: `Policy`. */
export interface PolicyAdd extends Control {
  type: "policy.add";
  cwd: string;
  answer: "allow" | "deny" | "ask";
  about?: Readonly<Record<string, string | readonly string[]>>;
}

/** Remembered rules, by id. Result: `Policy`. */
export interface PolicyRevoke extends Control {
  type: "policy.revoke";
  ids: readonly string[];
}

/** Looks anew which agents there are. Result: `Agents`. */
export interface AgentList extends Control {
  type: "agent.list";
}

/**
 * An agent of one's own. `key_name` is the variable that `key` is given to it in; the key is never told again.
 *
 * Result: `Agents`.
 */
export interface AgentAdd extends Control {
  type: "agent.add";
  agent: string;
  name?: string | null;
  command: string;
  args?: readonly string[];
  env?: Readonly<Record<string, string>>;
  key_name?: string | null;
  key?: string | null;
}

/** Changes those that are given; `env` takes the place of all that were set before. Result: `Agents`. */
export interface AgentEdit extends Control {
  type: "agent.edit";
  agent: string;
  name?: string | null;
  command?: string | null;
  args?: readonly string[] | null;
  env?: Readonly<Record<string, string>> | null;
  key_name?: string | null;
  key?: string | null;
  default?: boolean | null;
}

/** One of one's own goes; of a built-in one, what was changed of it. Result: `Agents`. */
export interface AgentRemove extends Control {
  type: "agent.remove";
  agent: string;
}

/** Starts it, shakes hands, and ends it. Result: `Tested`. */
export interface AgentTest extends Control {
  type: "agent.test";
  agent: string;
}

/** Without `method_id`: which methods there are. Result: `Login`. */
export interface AgentLogin extends Control {
  type: "agent.login";
  agent: string;
  method_id?: string | null;
}

/** Result: `Tokens`. */
export interface TokenList extends Control {
  type: "token.list";
}

/** Result: `TokenMade`: the only time that the token itself is told. */
export interface TokenCreate extends Control {
  type: "token.create";
  name: string;
  scope?: Scope;
}

/** Result: `Tokens`. */
export interface TokenRevoke extends Control {
  type: "token.revoke";
  token_id: string;
}

/** What was typed, in base64. */
export interface TerminalInput extends Control {
  type: "terminal.input";
  session_id: string;
  terminal_id: string;
  data: string;
}

export interface TerminalResize extends Control {
  type: "terminal.resize";
  session_id: string;
  terminal_id: string;
  columns: number;
  rows: number;
}

export interface TerminalKill extends Control {
  type: "terminal.kill";
  session_id: string;
  terminal_id: string;
}

/** Result: `Found`. */
export interface Search extends Control {
  type: "search";
  text: string;
  agent?: string | null;
  cwd?: string | null;
  kinds?: readonly ("user" | "assistant" | "thought" | "tool" | "file" | "command")[];
  session_id?: string | null;
  since?: number | null;
  until?: number | null;
  limit?: number;
}

/** Result: `UsageTold`. */
export interface UsageAsked extends Control {
  type: "usage";
  by?: "day" | "agent" | "model" | "workspace";
  since?: number | null;
  until?: number | null;
  agent?: string | null;
  cwd?: string | null;
}

/** Files of a session's workspace whose paths fit the query, the best first. Result: `Files`. */
export interface FilesList extends Control {
  type: "files.list";
  session_id?: string | null;
  cwd?: string | null;
  query?: string;
  limit?: number;
}

/** Lines of a file of a session's workspace. Result: `FileText`. */
export interface FilesRead extends Control {
  type: "files.read";
  session_id: string;
  path: string;
  line?: number;
  limit?: number;
}

/** What agents kept of sessions in other terminals: names and sizes alone are looked at. Result: `Transcripts`. */
export interface TranscriptsList extends Control {
  type: "transcripts.list";
}

/** The user agrees that these are read, and what comes to them. Result: `Transcripts`. */
export interface TranscriptsAllow extends Control {
  type: "transcripts.allow";
  provider: string;
}

/** Result: `Settings`. */
export interface SettingsGet extends Control {
  type: "settings.get";
}

/** None: back to the default. Result: `Settings`. */
export interface SettingsSet extends Control {
  type: "settings.set";
  name: string;
  value: string | boolean | number | number | null;
}

export type AnyControl =
  | SessionOpen
  | SessionPrompt
  | SessionCancel
  | SessionClose
  | SessionDelete
  | SessionFork
  | SessionLoad
  | SessionResume
  | SessionRestart
  | SessionSetOption
  | SessionSetMode
  | SessionRename
  | SessionExport
  | SessionList
  | SessionHistory
  | SessionRow
  | SessionContents
  | SessionDiffs
  | QueueAdd
  | QueueEdit
  | QueueMove
  | QueueSend
  | QueueRemove
  | WorkspaceRecent
  | WorkspaceTrust
  | PermissionAnswer
  | QuestionAnswer
  | PolicyList
  | PolicyPreview
  | PolicyAdd
  | PolicyRevoke
  | AgentList
  | AgentAdd
  | AgentEdit
  | AgentRemove
  | AgentTest
  | AgentLogin
  | TokenList
  | TokenCreate
  | TokenRevoke
  | TerminalInput
  | TerminalResize
  | TerminalKill
  | Search
  | UsageAsked
  | FilesList
  | FilesRead
  | TranscriptsList
  | TranscriptsAllow
  | SettingsGet
  | SettingsSet;

export type FromClient = Ping | Subscribe | Unsubscribe | AnyControl;

export type Snapshot = SessionsSnapshot | SessionSnapshot | PermissionsSnapshot | TerminalSnapshot | AgentsSnapshot;

export type Update = SessionsUpdate | SessionUpdate | FramesUpdate | PermissionsUpdate | TerminalUpdate | AgentsUpdate;

export type FromServer =
  | Hello
  | SessionsSnapshot
  | SessionSnapshot
  | PermissionsSnapshot
  | TerminalSnapshot
  | AgentsSnapshot
  | SessionsUpdate
  | SessionUpdate
  | FramesUpdate
  | PermissionsUpdate
  | TerminalUpdate
  | AgentsUpdate
  | Ended
  | Result
  | Failure
  | Pong;

/** What each control is answered with. */
export interface ResultOf {
  "session.open": Opened;
  "session.prompt": Prompted;
  "session.cancel": Done;
  "session.close": Done;
  "session.delete": Done;
  "session.fork": Opened;
  "session.load": Opened;
  "session.resume": Opened;
  "session.restart": Opened;
  "session.set_option": Done;
  "session.set_mode": Done;
  "session.rename": Done;
  "session.export": Exported;
  "session.list": Listed;
  "session.history": History;
  "session.row": WholeRow;
  "session.contents": Contents;
  "session.diffs": FileDiffs;
  "queue.add": Prompted;
  "queue.edit": Done;
  "queue.move": Done;
  "queue.send": Prompted;
  "queue.remove": Done;
  "workspace.recent": Workspaces;
  "workspace.trust": Trusted;
  "permission.answer": Answered;
  "question.answer": Answered;
  "policy.list": Policy;
  "policy.preview": Preview;
  "policy.add": Policy;
  "policy.revoke": Policy;
  "agent.list": Agents;
  "agent.add": Agents;
  "agent.edit": Agents;
  "agent.remove": Agents;
  "agent.test": Tested;
  "agent.login": Login;
  "token.list": Tokens;
  "token.create": TokenMade;
  "token.revoke": Tokens;
  "terminal.input": Done;
  "terminal.resize": Done;
  "terminal.kill": Done;
  "search": Found;
  "usage": UsageTold;
  "files.list": Files;
  "files.read": FileText;
  "transcripts.list": Transcripts;
  "transcripts.allow": Transcripts;
  "settings.get": Settings;
  "settings.set": Settings;
}
