// A client built on the official TypeScript SDK that says again what a recorded client said; the twin of
// replay_client.py. Argument: the SDK's install prefix. On stdin: the plays, as JSON.
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { Readable, Writable } from "node:stream";
import { text } from "node:stream/consumers";
import { pathToFileURL } from "node:url";

const LIMIT = 20_000;
const [prefix] = process.argv.slice(2);
const acp = await import(pathToFileURL(createRequire(join(prefix, "package.json")).resolve("@agentclientprotocol/sdk")));
const { client: served } = acp.methods;
const ASKED = [
  served.session.requestPermission,
  served.fs.readTextFile,
  served.fs.writeTextFile,
  served.terminal.create,
  served.terminal.output,
  served.terminal.waitForExit,
  served.terminal.release,
];

async function play({ command, steps, answers, heard: total, updates: expected }) {
  let heard = 0;
  let updates = 0;
  const said = {}; // by session
  let problem = null;
  let more = () => {};
  const until = async (enough) => {
    while (!enough()) await new Promise((resolve) => (more = resolve));
  };
  const counting = new TransformStream({
    transform(message, controller) {
      heard += 1;
      controller.enqueue(message);
      more();
    },
  });

  let app = acp.client({ name: "interop" }).onNotification(served.session.update, ({ params: { sessionId, update } }) => {
    updates += 1;
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text") {
      said[sessionId] = (said[sessionId] ?? "") + update.content.text;
    }
    more();
  });
  for (const method of ASKED) {
    app = app.onRequest(method, () => {
      const answer = answers[method].shift();
      if (answer === null) return new Promise(() => {}); // none was recorded
      if (answer.error) throw new acp.RequestError(answer.error.code, answer.error.message);
      return answer.result;
    });
  }

  const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
  const ended = new Promise((resolve) => child.once("exit", resolve));
  const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
  const outcomes = [];
  const outcome = async (agent, { method, params }, place) => {
    try {
      outcomes[place] = (await agent.request(method, params))?.stopReason ?? "answered";
    } catch (refusal) {
      outcomes[place] = refusal.code ?? String(refusal);
    }
  };
  const drive = async (agent) => {
    const asked = [];
    for (const step of steps) {
      await until(() => heard >= step.after);
      if (step.asks) asked.push(outcome(agent, step, asked.length));
      else await agent.notify(step.method, step.params);
    }
    await until(() => heard >= total && updates >= expected);
    await Promise.all(asked);
  };
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain; heard ${heard} of ${total}`)), LIMIT);
  });
  try {
    const readable = stream.readable.pipeThrough(counting);
    await Promise.race([app.connectWith({ readable, writable: stream.writable }, drive), late]);
  } catch (error) {
    problem = String(error);
  }
  clearTimeout(timer);
  child.stdin.end();
  await ended;
  return { outcomes, text: said, updates, problem };
}

const reports = [];
for (const each of JSON.parse(await text(process.stdin))) reports.push(await play(each));
console.log(JSON.stringify(reports));
process.exit(0); // what was never answered then is not waited for
