// A client built on the official TypeScript SDK, which drives an agent; the twin of python_client.py.
// Arguments: the SDK's install prefix; JSON with the agent's `command`, the `folder`, the `prompts` and those to `cancel`.
import { execFile, spawn } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [prefix, text] = process.argv.slice(2);
const given = JSON.parse(text);
const entry = createRequire(join(prefix, "package.json")).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry));
// The schemas by which the SDK reads, which it does not export.
const schemas = (...path) => import(pathToFileURL(join(entry, "..", "..", ...path, "schema", "zod.gen.js")));
const [stable, unstable] = [await schemas(), await schemas("unstable")];
const { agent: called, client: served } = acp.methods;

const capabilities = {
  fs: { readTextFile: true, writeTextFile: true },
  terminal: true,
  session: { compaction: {}, configOptions: { boolean: {} }, notices: {} },
  elicitation: { form: {}, url: {} },
};

const PARAMS = {
  [served.session.update]: "SessionNotification",
  [served.session.requestPermission]: "RequestPermissionRequest",
  [served.fs.readTextFile]: "ReadTextFileRequest",
  [served.fs.writeTextFile]: "WriteTextFileRequest",
  [served.terminal.create]: "CreateTerminalRequest",
  [served.terminal.output]: "TerminalOutputRequest",
  [served.terminal.waitForExit]: "WaitForTerminalExitRequest",
  [served.terminal.kill]: "KillTerminalRequest",
  [served.terminal.release]: "ReleaseTerminalRequest",
  [served.elicitation.create]: "CreateElicitationRequest",
  [served.elicitation.complete]: "CompleteElicitationNotification",
  [acp.methods.protocol.cancelRequest]: "CancelRequestNotification",
};
const RESULTS = {
  [called.initialize]: "InitializeResponse",
  [called.authenticate]: "AuthenticateResponse",
  [called.logout]: "LogoutResponse",
  [called.session.new]: "NewSessionResponse",
  [called.session.load]: "LoadSessionResponse",
  [called.session.resume]: "ResumeSessionResponse",
  [called.session.list]: "ListSessionsResponse",
  [called.session.delete]: "DeleteSessionResponse",
  [called.session.close]: "CloseSessionResponse",
  [called.session.prompt]: "PromptResponse",
  [called.session.setMode]: "SetSessionModeResponse",
  [called.session.setConfigOption]: "SetSessionConfigOptionResponse",
};

// Every frame that the agent sent, held against the SDK's schemas. These are lenient: what cannot be read becomes its
// default, what is not known is dropped. So a frame counts as accepted only if all that it said was kept.
const heard = new Set();
const problems = new Set();
const unstableParts = new Set(); // what only the schema with the unstable features has a word for
const asked = new Map();

function received(message) {
  if (message.method !== undefined) {
    const kind = message.method === served.session.update ? ` ${message.params.update.sessionUpdate}` : "";
    note(message.method + kind, message.params, PARAMS[message.method]);
  } else if (message.error === undefined) {
    const method = asked.get(message.id);
    note(`answer to ${method}`, message.result, RESULTS[method]);
  }
}

function note(name, said, model) {
  heard.add(name);
  for (const loss of lostIn(said, unstable[`z${model}`])) problems.add(`${name}: ${loss}`);
  for (const loss of lostIn(said, stable[`z${model}`])) unstableParts.add(`${name}: ${loss}`);
}

function lostIn(said, schema) {
  if (!schema) return ["everything: the SDK has no model for it"];
  const read = schema.safeParse(said);
  return read.success ? losses(said, read.data) : [`everything: ${read.error.message}`];
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

function tapped(stream) {
  const tap = (note) =>
    new TransformStream({
      transform(message, controller) {
        note(message);
        controller.enqueue(message);
      },
    });
  const out = tap(({ id, method }) => method !== undefined && id !== undefined && asked.set(id, method));
  out.readable.pipeTo(stream.writable).catch(() => {});
  return { readable: stream.readable.pipeThrough(tap(received)), writable: out.writable };
}

let texts = 0;
let working = () => {}; // called when the agent is in the middle of something
const terminals = new Map();

const app = acp
  .client({ name: "interop" })
  .onNotification(served.session.update, ({ params: { update } }) => {
    if (update.sessionUpdate === "agent_message_chunk") {
      texts += 1;
      working();
    }
  })
  .onRequest(served.session.requestPermission, ({ params: { options } }) => {
    const { optionId } = options.find(({ kind }) => kind === "allow_once");
    return { outcome: { outcome: "selected", optionId } };
  })
  .onRequest(served.fs.readTextFile, async ({ params: { path } }) => {
    try {
      return { content: await readFile(path, "utf8") };
    } catch {
      throw acp.RequestError.resourceNotFound(path);
    }
  })
  .onRequest(served.fs.writeTextFile, async ({ params: { path, content } }) => {
    await writeFile(path, content);
    return {};
  })
  .onRequest(served.terminal.create, ({ params: { command, args, cwd } }) => {
    const terminalId = `terminal-${terminals.size + 1}`;
    const terminal = { output: "", exitCode: null };
    terminal.ended = new Promise((resolve) => {
      terminal.process = execFile(command, args ?? [], { cwd: cwd ?? undefined }, (error, stdout, stderr) => {
        Object.assign(terminal, { output: stdout + stderr, exitCode: error ? (error.code ?? 1) : 0 });
        resolve();
      });
    });
    terminals.set(terminalId, terminal);
    return { terminalId };
  })
  .onRequest(served.terminal.waitForExit, async ({ params: { terminalId } }) => {
    working();
    await terminals.get(terminalId).ended;
    return { exitCode: terminals.get(terminalId).exitCode };
  })
  .onRequest(served.terminal.output, ({ params: { terminalId } }) => {
    const { output, exitCode } = terminals.get(terminalId);
    return { output, truncated: false, ...(exitCode === null ? {} : { exitStatus: { exitCode } }) };
  })
  .onRequest(served.terminal.kill, ({ params: { terminalId } }) => {
    terminals.get(terminalId).process.kill();
    return {};
  })
  .onRequest(served.terminal.release, ({ params: { terminalId } }) => {
    terminals.get(terminalId).process.kill();
    return {};
  })
  .onRequest(served.elicitation.create, ({ params: { mode } }) =>
    mode === "form" ? { action: "accept", content: { colour: "red", files: 3, happy: true } } : { action: "accept" },
  )
  .onNotification(served.elicitation.complete, () => {});

async function drive(agent) {
  const outcomes = {};
  const { folder: cwd } = given;
  const prompt = (sessionId, text) => agent.request(called.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

  await agent.request(called.initialize, { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: capabilities });
  await agent.request(called.authenticate, { methodId: "demo-login" });
  const { sessionId } = await agent.request(called.session.new, { cwd, mcpServers: [] });
  await agent.request(called.session.setMode, { sessionId, modeId: "ask" });
  await agent.request(called.session.setMode, { sessionId, modeId: "code" });
  const option = (more) => agent.request(called.session.setConfigOption, { sessionId, ...more });
  await option({ configId: "model", value: "demo-large" });
  await option({ configId: "word_by_word", type: "boolean", value: false });
  for (const each of given.prompts) {
    try {
      outcomes[each] = (await prompt(sessionId, each)).stopReason;
    } catch (refusal) {
      outcomes[each] = refusal.code;
    }
  }
  for (const each of given.cancel) {
    const begun = new Promise((resolve) => (working = resolve));
    const cancelled = prompt(sessionId, each);
    await begun;
    await agent.notify(called.session.cancel, { sessionId });
    outcomes[each] = (await cancelled).stopReason;
  }
  const { sessions } = await agent.request(called.session.list, { cwd });
  if (sessions.length !== 1 || sessions[0].sessionId !== sessionId) throw new Error("session/list");
  await agent.request(called.session.close, { sessionId });
  const before = texts;
  await agent.request(called.session.load, { sessionId, cwd, mcpServers: [] });
  if (texts === before) throw new Error("nothing was replayed");
  await agent.request(called.session.close, { sessionId });
  await agent.request(called.session.resume, { sessionId, cwd, mcpServers: [] });
  await agent.request(called.session.delete, { sessionId });
  await agent.request(called.logout, {});
  return outcomes;
}

const [command, ...args] = given.command;
const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = tapped(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)));
const outcomes = await app.connectWith(stream, drive);
child.stdin.end();
console.log(JSON.stringify({ outcomes, heard: [...heard], problems: [...problems], unstable: [...unstableParts] }));
