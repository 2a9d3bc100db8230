// An agent built on the official TypeScript SDK; the twin of python_agent.py, where its prompts are described.
// Arguments: the SDK's install prefix, then nothing (stdin and stdout) or `serve` (a free loopback port, printed first).
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [prefix, how] = process.argv.slice(2);
const installed = createRequire(join(prefix, "package.json"));
const load = (name) => import(pathToFileURL(installed.resolve(name)));
const acp = await load("@agentclientprotocol/sdk");
const { agent: served, client: called } = acp.methods;

const modes = {
  currentModeId: "careful",
  availableModes: [
    { id: "careful", name: "Careful" },
    { id: "quick", name: "Quick", description: "Asks less" },
  ],
};

const capabilities = {
  loadSession: true,
  promptCapabilities: { image: true, audio: true, embeddedContext: true },
  mcpCapabilities: { http: true, sse: true },
  sessionCapabilities: { list: {}, delete: {}, additionalDirectories: {}, resume: {}, close: {} },
  auth: { logout: {} },
};

// What the client said, taken off the stream before the SDK looks at it, and which parts of it the SDK's own reading
// did not keep.
class Recorder {
  heard = [];
  lost = [];
  mcpServers = {}; // the MCP servers of the last session/new and session/load
  #raw = new Map();
  #asked = new Map();

  received(message) {
    if (message.method !== undefined) {
      this.heard.push(message.method);
      this.#raw.set(message.id ?? message.method, message.params);
    } else if (this.#asked.has(message.id)) {
      const answer = `answer to ${this.#asked.get(message.id)}`;
      this.#raw.set(answer, message.result);
      this.heard.push(answer);
    }
  }

  sent(message) {
    if (message.method !== undefined && message.id !== undefined) this.#asked.set(message.id, message.method);
  }

  read(method, id, params) {
    this.lost.push(...losses(this.#raw.get(id ?? method), params).map((path) => `${method}: ${path}`));
  }
}

// Where `kept` says less, or something else, than `said`.
function losses(said, kept, path = "") {
  if (Array.isArray(said) && Array.isArray(kept) && said.length === kept.length) {
    return said.flatMap((item, number) => losses(item, kept[number], `${path}[]`));
  }
  if (said && kept && typeof said === "object" && typeof kept === "object" && !Array.isArray(said)) {
    return Object.keys(said).flatMap((key) => losses(said[key], kept[key], `${path}.${key}`));
  }
  return Object.is(said, kept) ? [] : [path.replace(/^\./, "")];
}

function tapped(stream, recorder) {
  const tap = (note) =>
    new TransformStream({
      transform(message, controller) {
        note(message);
        controller.enqueue(message);
      },
    });
  const out = tap((message) => recorder.sent(message));
  out.readable.pipeTo(stream.writable).catch(() => {});
  return { readable: stream.readable.pipeThrough(tap((message) => recorder.received(message))), writable: out.writable };
}

function createAgent(recorder) {
  const sessions = new Map(); // what was asked in each
  const waiting = new Map(); // turns that wait to be cancelled
  let [model, loud] = ["small", false];
  const app = acp.agent({ name: "typescript-sdk-agent" });

  const on = (method, handle) => app.onRequest(method, (context) => {
    recorder.read(method, context.client.requestId, context.params);
    return handle(context.params, context.client);
  });
  const ask = async (method, asking) => {
    const answer = await asking;
    recorder.read(`answer to ${method}`, undefined, answer);
    return answer;
  };
  const say = (client, sessionId, text) => update(client, sessionId, chunk("agent_message_chunk", { type: "text", text }));
  const update = (client, sessionId, update) => client.notify(called.session.update, { sessionId, update });
  const chunk = (sessionUpdate, content) => ({ sessionUpdate, content });

  const options = () => [
    {
      type: "select",
      id: "model",
      name: "Model",
      category: "model",
      currentValue: model,
      options: ["small", "large"].map((name) => ({ value: name, name })),
    },
    { type: "boolean", id: "loud", name: "Loud", currentValue: loud },
  ];

  on(served.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentCapabilities: capabilities,
    authMethods: [{ id: "key", name: "A key", description: "Any will do" }],
    agentInfo: { name: "typescript-sdk-agent", version: "1" },
  }));
  on(served.authenticate, ({ methodId }) => {
    if (methodId !== "key") throw acp.RequestError.invalidParams({ details: `no method ${methodId}` });
    return {};
  });
  on(served.logout, () => ({}));
  on(served.session.new, ({ mcpServers }) => {
    recorder.mcpServers["session/new"] = mcpServers;
    const sessionId = `session-${sessions.size + 1}`;
    sessions.set(sessionId, []);
    return { sessionId, modes, configOptions: options() };
  });
  on(served.session.load, async ({ sessionId, mcpServers }, client) => {
    recorder.mcpServers["session/load"] = mcpServers;
    if (!sessions.has(sessionId)) sessions.set(sessionId, []);
    for (const asked of sessions.get(sessionId)) {
      await update(client, sessionId, chunk("user_message_chunk", { type: "text", text: asked }));
      await say(client, sessionId, `answered: ${asked}`);
    }
    return { modes, configOptions: options() };
  });
  on(served.session.resume, ({ sessionId }) => {
    if (!sessions.has(sessionId)) sessions.set(sessionId, []);
    return { modes, configOptions: options() };
  });
  on(served.session.list, ({ cursor }) => {
    const names = [...sessions.keys()].sort();
    const at = Number(cursor ?? 0);
    const found = names.slice(at, at + 1).map((sessionId) => ({ sessionId, cwd: "/", title: `About ${sessionId}` }));
    return { sessions: found, ...(at + 1 < names.length ? { nextCursor: String(at + 1) } : {}) };
  });
  on(served.session.delete, ({ sessionId }) => {
    sessions.delete(sessionId);
    return {};
  });
  on(served.session.close, () => ({}));
  on(served.session.setMode, async ({ sessionId, modeId }, client) => {
    await update(client, sessionId, { sessionUpdate: "current_mode_update", currentModeId: modeId });
    return {};
  });
  on(served.session.setConfigOption, ({ configId, value }) => {
    if (configId === "model") model = value;
    else loud = value;
    return { configOptions: options() };
  });
  app.onNotification(served.session.cancel, ({ params }) => {
    recorder.read(served.session.cancel, undefined, params);
    waiting.get(params.sessionId)?.();
  });
  on(served.session.prompt, async ({ sessionId, prompt }, client) => {
    const [asked, rest] = prompt.map((block) => block.text ?? block.type).join(" ").split(/ (.*)/s);
    sessions.get(sessionId).push(asked);
    const acts = { updates, permission, files, terminals, wait, flood, report };
    const stopReason = await (acts[asked] ?? echo)(client, sessionId, rest, asked);
    return { stopReason: stopReason ?? "end_turn" };
  });

  const echo = (client, sessionId, rest, asked) => say(client, sessionId, `echo: ${asked}`);

  async function updates(client, sessionId) {
    const text = { type: "text", text: "said" };
    const all = [
      chunk("user_message_chunk", text),
      chunk("agent_thought_chunk", text),
      chunk("agent_message_chunk", text),
      chunk("agent_message_chunk", { type: "image", data: "aGk=", mimeType: "image/png" }),
      chunk("agent_message_chunk", { type: "audio", data: "aGk=", mimeType: "audio/wav" }),
      chunk("agent_message_chunk", { type: "resource_link", name: "a file", uri: "file:///a" }),
      chunk("agent_message_chunk", { type: "resource", resource: { uri: "file:///b", text: "b" } }),
      chunk("agent_message_chunk", { type: "resource", resource: { uri: "file:///c", blob: "Yw==" } }),
      {
        sessionUpdate: "tool_call",
        toolCallId: "call-1",
        title: "Edit a file",
        kind: "edit",
        status: "pending",
        content: [{ type: "diff", path: "/a", oldText: "1", newText: "2" }],
        locations: [{ path: "/a", line: 1 }],
        rawInput: { path: "/a" },
      },
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "call-1",
        status: "completed",
        content: [{ type: "content", content: text }],
        rawOutput: { ok: true },
      },
      { sessionUpdate: "plan", entries: [{ content: "Do it", priority: "high", status: "in_progress" }] },
      { sessionUpdate: "available_commands_update", availableCommands: [{ name: "go", description: "Goes" }] },
      { sessionUpdate: "current_mode_update", currentModeId: "quick" },
      { sessionUpdate: "config_option_update", configOptions: options() },
      { sessionUpdate: "session_info_update", title: "A title" },
      { sessionUpdate: "usage_update", used: 10, size: 100, cost: { amount: 0.5, currency: "USD" } },
      { sessionUpdate: "notice", severity: "info", title: "By the way" },
      { sessionUpdate: "compaction_update", compactionId: "c", status: "in_progress" },
      { sessionUpdate: "compaction_summary_chunk", compactionId: "c", content: text },
      { sessionUpdate: "compaction_update", compactionId: "c", status: "completed" },
    ];
    for (const each of all) await update(client, sessionId, each);
  }

  async function permission(client, sessionId) {
    const question = {
      sessionId,
      toolCall: { toolCallId: "call-2", title: "Be bold", kind: "execute", rawInput: { command: "ls" } },
      options: [
        { optionId: "yes", name: "Yes", kind: "allow_once" },
        { optionId: "no", name: "No", kind: "reject_once" },
      ],
    };
    const method = called.session.requestPermission;
    const answer = await ask(method, client.request(method, question));
    await say(client, sessionId, JSON.stringify(answer.outcome));
  }

  async function files(client, sessionId, folder) {
    const path = join(folder, "new", "notes.txt");
    const { writeTextFile, readTextFile } = called.fs;
    await ask(writeTextFile, client.request(writeTextFile, { sessionId, path, content: "one\ntwo\nthree\n" }));
    const answer = await ask(readTextFile, client.request(readTextFile, { sessionId, path, line: 2, limit: 1 }));
    await say(client, sessionId, answer.content);
  }

  async function terminals(client, sessionId) {
    const first = await client.createTerminal({
      sessionId,
      command: "sh",
      args: ["-c", 'printf "%s" "$WORD"; exit 3'],
      env: [{ name: "WORD", value: "hello" }],
      outputByteLimit: 1000,
    });
    const { waitForExit, output, kill, release } = called.terminal;
    const ended = await ask(waitForExit, first.waitForExit());
    const shown = await ask(output, first.currentOutput());
    await ask(release, first.release());
    const second = await client.createTerminal({ sessionId, command: "sleep", args: ["600"] });
    await ask(kill, second.kill());
    const killed = await ask(waitForExit, second.waitForExit());
    await second.release();
    const told = { exit: ended.exitCode, output: shown.output, truncated: shown.truncated, signal: killed.signal };
    await say(client, sessionId, JSON.stringify(told));
  }

  async function wait(client, sessionId) {
    const cancelled = new Promise((resolve) => waiting.set(sessionId, resolve));
    await say(client, sessionId, "waiting");
    await cancelled;
    return "cancelled";
  }

  async function flood(client, sessionId, count) {
    for (let number = 0; number < Number(count); number += 1) await say(client, sessionId, `${number}\n`);
  }

  const report = (client, sessionId) => {
    const { heard, lost, mcpServers } = recorder;
    return say(client, sessionId, JSON.stringify({ heard, lost, mcpServers }));
  };

  return app;
}

async function serve() {
  const { createServer } = await import("node:http");
  const { AcpServer } = await load("@agentclientprotocol/sdk/experimental/server");
  const { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } = await load(
    "@agentclientprotocol/sdk/experimental/node",
  );
  const { WebSocketServer } = installed("ws");
  // The connector in place of the app: it is the one place where the stream can be tapped.
  const createAgent_ = () => ({
    connect: (stream, lifecycle) => {
      const recorder = new Recorder();
      return createAgent(recorder).connect(tapped(stream, recorder), lifecycle);
    },
  });
  const server = new AcpServer({ createAgent: createAgent_ });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => console.log(http.address().port));
}

if (how === "serve") {
  await serve();
} else {
  const recorder = new Recorder();
  const stream = acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin));
  createAgent(recorder).connect(tapped(stream, recorder));
}
