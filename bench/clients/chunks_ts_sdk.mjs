// `chunks` with the official TypeScript SDK's client, in both ways that it offers: `session`, its ActiveSession whose
// updates are pulled in order, and `handler`, a notification handler. Both keep each text.
// Arguments: session or handler, the SDK's install prefix, the count, the workspace, the agent's command line.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [way, prefix, countGiven, cwd, command, ...args] = process.argv.slice(2);
const entry = createRequire(join(prefix, "package.json")).resolve("@agentclientprotocol/sdk");
const acp = await import(pathToFileURL(entry));

const WARM_UP_CHUNKS = 2_000; // as in report.py
const count = Number(countGiven);

let texts = [];

async function pulled(app, stream) {
  const prompt = async (session, wanted) => {
    texts = [];
    const started = performance.now();
    const answered = session.prompt(String(wanted));
    for (let next = await session.nextUpdate(); next.kind !== "stop"; next = await session.nextUpdate()) {
      texts.push(next.update.content.text);
    }
    await answered;
    return (performance.now() - started) / 1000;
  };
  return app.connectWith(stream, async (agent) => {
    await initialize(agent);
    return agent.buildSession(cwd).withSession(async (session) => {
      await prompt(session, WARM_UP_CHUNKS);
      return prompt(session, count);
    });
  });
}

async function handled(app, stream) {
  let expected = 0;
  let complete = () => {};
  app.onNotification(acp.methods.client.session.update, ({ params }) => {
    texts.push(params.update.content.text);
    if (texts.length === expected) complete();
  });
  return app.connectWith(stream, async (agent) => {
    await initialize(agent);
    const { sessionId } = await agent.request(acp.methods.agent.session.new, { cwd, mcpServers: [] });
    const prompt = async (wanted) => {
      texts = [];
      expected = wanted;
      const all = new Promise((resolve) => (complete = resolve));
      const text = { type: "text", text: String(wanted) };
      const started = performance.now();
      await Promise.all([agent.request(acp.methods.agent.session.prompt, { sessionId, prompt: [text] }), all]);
      return (performance.now() - started) / 1000;
    };
    await prompt(WARM_UP_CHUNKS);
    return prompt(count);
  });
}

function initialize(agent) {
  const params = { protocolVersion: acp.PROTOCOL_VERSION, clientCapabilities: {} };
  return agent.request(acp.methods.agent.initialize, params);
}

function checkOrder() {
  const numbers = texts.map((text) => Number(text.slice(5, 13)));
  const different = new Set(numbers).size;
  if (numbers.length !== count || different !== count) {
    throw new Error(`saw ${numbers.length} chunks, ${different} of them different; the agent sent ${count}`);
  }
  let late = 0;
  let newest = -1;
  for (const number of numbers) {
    if (number < newest) late += 1;
    newest = Math.max(newest, number);
  }
  return late;
}

const child = spawn(command, args, { stdio: ["pipe", "pipe", "inherit"] });
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
const seconds = await (way === "session" ? pulled : handled)(acp.client({ name: "bench" }), stream);
console.log(JSON.stringify({ seconds, late: checkOrder() }));
child.stdin.end();
