// Builds rows in the shape that the bridge sends, for tests and for the harness.

import type {
  DecidedRow,
  FileCall,
  FormField,
  SessionState,
  Message,
  Notice,
  Permission,
  Plan,
  Question,
  Row,
  Rows,
  Run,
  SessionItem,
  SessionDetails,
  Terminal,
  ToolCall,
  Usage,
} from "../protocol";

export const DECIDED: DecidedRow = {
  decision: null,
  decided_by: null,
  reason: null,
  rule: null,
  layer: null,
  remembered: [],
};

export const NO_USAGE: Usage = {
  input_tokens: null,
  cached_tokens: null,
  output_tokens: null,
  thought_tokens: null,
  total_tokens: null,
  context_used: null,
  context_size: null,
  is_context_size_guessed: false,
  cost: null,
};

export const SESSION: SessionItem = {
  id: "s1",
  agent: "opencode",
  title: "Fix flaky parser test",
  prompt: "The parser test is flaky",
  cwd: "/home/ada/api",
  created: 1_760_000_000,
  updated: 1_760_000_100,
  runs: 1,
  frames: 120,
  run_status: "running",
  connection: "connected",
  status: "running",
  pending: 0,
  imported: false,
  agent_session_id: "",
  parent: null,
  is_sub_agent: false,
  forked_from: null,
  worktree: null,
};

export function formField(kind: FormField["kind"], name: string, given: Partial<FormField> = {}): FormField {
  return {
    kind,
    name,
    title: name,
    description: "",
    required: false,
    default: null,
    choices: [],
    format: null,
    max_length: null,
    whole: false,
    ...given,
  };
}

export const LIVE: SessionState = {
  connection: "connected",
  status: "running",
  reason: "",
  failure: null,
  queue: [],
  can_resume: false,
  policy_notice: null,
  worktree: null,
  capabilities: {
    load: true,
    resume: true,
    fork: false,
    close: true,
    image: true,
    audio: false,
    embedded_context: true,
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
  },
};

export const STATE: SessionDetails = { title: null, commands: [], settings: [], sub_agents: [], usage: NO_USAGE };

/** Builds rows with consecutive positions and collects them in tables. */
export class RowBuilder {
  rows: Rows = {
    runs: [],
    messages: [],
    tool_calls: [],
    plans: [],
    permissions: [],
    file_calls: [],
    terminals: [],
    questions: [],
    notices: [],
  };
  private position = 0;
  private run_id: string | null = null;

  constructor(
    private time = 1_760_000_000,
    private readonly step = 1,
  ) {}

  run(given: Partial<Run> = {}): Run {
    const base = this.base("run");
    this.run_id = base.id;
    return this.put({
      table: "runs",
      id: base.id,
      position: base.position,
      time: base.time,
      status: "running",
      stop_reason: null,
      reason: null,
      cancel_requested: false,
      usage: null,
      ended_time: null,
      context: null,
      ...given,
    });
  }

  message(kind: Message["kind"], text: string, given: Partial<Message> = {}): Message {
    return this.put({
      table: "messages",
      ...this.base("m"),
      kind,
      replayed: false,
      text,
      blocks: [],
      ended: true,
      shortened: false,
      ...given,
    });
  }

  call(kind: string, title: string, given: Partial<ToolCall> = {}): ToolCall {
    const base = this.base("t");
    return this.put({
      table: "tool_calls",
      ...base,
      tool_call_id: `call-${base.id}`,
      replayed: false,
      title,
      name: null,
      kind,
      status: "completed",
      content: [],
      locations: [],
      raw_input: null,
      raw_output: null,
      parent_id: null,
      output: null,
      truncated: false,
      exit_code: null,
      signal: null,
      ended_time: base.time + 0.4,
      shortened: false,
      ...given,
    });
  }

  permission(title: string, given: Partial<Permission> = {}): Permission {
    return this.put({
      table: "permissions",
      ...this.base("p"),
      origin: "agent",
      tool_call_row: null,
      tool_call_id: null,
      title,
      kind: "execute",
      options: [
        { option_id: "once", name: "Allow once", kind: "allow_once" },
        { option_id: "always", name: "Allow always", kind: "allow_always" },
        { option_id: "no", name: "Reject", kind: "reject_once" },
      ],
      content: [],
      locations: [],
      raw_input: null,
      asked_because: "",
      outcome: "pending",
      option_id: null,
      resolved_time: null,
      request_id: 1,
      ...DECIDED,
      shortened: false,
      ...given,
    });
  }

  file(operation: FileCall["operation"], path: string, given: Partial<FileCall> = {}): FileCall {
    const base = this.base("f");
    return this.put({
      table: "file_calls",
      ...base,
      operation,
      path,
      line: null,
      limit: null,
      status: "done",
      size: null,
      diff: null,
      error: null,
      ended_time: base.time,
      request_id: 1,
      old_size: null,
      old_sha256: null,
      ...DECIDED,
      shortened: false,
      ...given,
    });
  }

  terminal(command: string, args: readonly string[] = [], given: Partial<Terminal> = {}): Terminal {
    const base = this.base("x");
    return this.put({
      table: "terminals",
      ...base,
      command,
      args,
      cwd: null,
      terminal_id: `term-${base.id}`,
      status: "exited",
      exit_code: 0,
      signal: null,
      output: "",
      output_bytes: 0,
      truncated: false,
      error: null,
      ended_time: base.time + 2,
      request_id: 1,
      env: [],
      ...DECIDED,
      ...given,
    });
  }

  question(message: string, given: Partial<Question> = {}): Question {
    return this.put({
      table: "questions",
      ...this.base("q"),
      mode: "form",
      message,
      tool_call_id: null,
      schema: null,
      form: null,
      url: null,
      action: "pending",
      content: null,
      answered_time: null,
      completed_time: null,
      request_id: 1,
      elicitation_id: null,
      ...DECIDED,
      shortened: false,
      ...given,
    });
  }

  notice(title: string, given: Partial<Notice> = {}): Notice {
    return this.put({
      table: "notices",
      ...this.base("n"),
      kind: "notice",
      severity: "info",
      title,
      text: null,
      status: null,
      ended_time: null,
      shortened: false,
      ...given,
    });
  }

  plan(entries: Plan["entries"]): Plan {
    return this.put({ table: "plans", id: "", entries, markdown: null, uri: null, shortened: false });
  }

  /** Takes the place of a row of the same id, or is added. */
  put<T extends Row>(row: T): T {
    const known: readonly Row[] = this.rows[row.table];
    const at = known.findIndex((one) => one.id === row.id);
    this.rows = { ...this.rows, [row.table]: at < 0 ? [...known, row] : known.with(at, row) };
    return row;
  }

  private base(prefix: string) {
    this.time += this.step;
    this.position += 1;
    return { id: `${prefix}${this.position}`, position: this.position, time: this.time, run_id: this.run_id };
  }
}
