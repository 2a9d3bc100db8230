// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { LIVE, RowBuilder, SESSION, STATE } from "../dev/rowBuilder";
import type { SessionState } from "../protocol";
import { Composer } from "./Composer";

const IDLE: SessionState = { ...LIVE, status: "idle" };
const ANSWERS = {
  "session.prompt": { run_id: "r", queued_id: null, how: "started" },
  "session.cancel": {},
  "session.resume": { session_id: "s1", state: IDLE },
} as const;

let drawn: Rendered;
beforeEach(() => localStorage.clear());
afterEach(() => drawn.end());

async function composer(live: SessionState = IDLE, bridge = new FakeBridge(ANSWERS), made = new RowBuilder()) {
  const state = { ...STATE, commands: [{ name: "review", description: "Look at it", hint: null }] };
  drawn = await render(<Composer bridge={bridge} session={SESSION} live={live} state={state} rows={made.rows} />);
  return { bridge, area: drawn.container.querySelector("textarea") as HTMLTextAreaElement };
}

test("Enter sends the prompt, Shift Enter does not", async () => {
  const { bridge, area } = await composer();
  await drawn.type(area, " hello ");
  await drawn.key(area, "Enter", { shiftKey: true });
  expect(bridge.requests).toEqual([]);
  await drawn.key(area, "Enter");
  expect(bridge.requests).toEqual([
    { type: "session.prompt", fields: { session_id: "s1", text: "hello", attachments: [], when: "queue" } },
  ]);
  expect(area.value).toBe("");
});

test("Enter that ends the writing of a Japanese word sends nothing", async () => {
  const { bridge, area } = await composer();
  await drawn.type(area, "日本");
  await drawn.key(area, "Enter", { isComposing: true });
  expect(bridge.requests).toEqual([]);
});

test("a prompt that could not be sent is still there, with the reason", async () => {
  const { area } = await composer(IDLE, new FakeBridge({ "session.prompt": new Error("The agent has exited.") }));
  await drawn.type(area, "hello");
  await drawn.key(area, "Enter");
  expect(area.value).toBe("hello");
  expect(drawn.container.textContent).toContain("The agent has exited.");
});

test("a prompt written while another is being sent follows it, and none is lost", async () => {
  const { bridge, area } = await composer();
  const first = bridge.hold("session.prompt");
  await drawn.type(area, "one");
  await drawn.key(area, "Enter");
  await drawn.type(area, "two");
  await drawn.key(area, "Enter");
  expect(area.value).toBe("");
  expect(bridge.requests.map((request) => request.fields.text)).toEqual(["one"]);
  await drawn.act(() => first.resolve(ANSWERS["session.prompt"]));
  expect(bridge.requests.map((request) => request.fields.text)).toEqual(["one", "two"]);
});

test("prompts that could not be sent are put back in their order, after the new text", async () => {
  const { bridge, area } = await composer();
  const first = bridge.hold("session.prompt");
  await drawn.type(area, "one");
  await drawn.key(area, "Enter");
  const second = bridge.hold("session.prompt");
  await drawn.type(area, "two");
  await drawn.key(area, "Enter");
  await drawn.type(area, "three");
  await drawn.act(() => first.reject(new Error("The agent has exited.")));
  await drawn.act(() => second.reject(new Error("The agent has exited.")));
  expect(area.value).toBe("three\n\none\n\ntwo");
});

test("a draft is there again after a reload", async () => {
  const { area } = await composer();
  await drawn.type(area, "half a thou");
  await drawn.end();
  expect((await composer()).area.value).toBe("half a thou");
});

test("a command is completed from the agent's own", async () => {
  const { bridge, area } = await composer();
  await drawn.type(area, "/re");
  expect(drawn.container.querySelector("[role=option]")?.textContent).toContain("review");
  await drawn.key(area, "Enter");
  expect(area.value).toBe("/review ");
  expect(bridge.requests).toEqual([]);
});

test("a session that is not open is resumed before a prompt is sent", async () => {
  const { bridge, area } = await composer({ ...IDLE, connection: "none", can_resume: true });
  await drawn.type(area, "go on");
  await drawn.key(area, "Enter");
  expect(bridge.requests.map((one) => one.type)).toEqual(["session.resume", "session.prompt"]);
});

test("a session that another process has open cannot be written to here", async () => {
  const { area } = await composer({ ...IDLE, connection: "elsewhere" });
  expect(area.disabled).toBe(true);
  expect(area.placeholder).toContain("Another process");
});

test("a run of an agent in a terminal can neither be stopped here nor written to", async () => {
  const { area } = await composer({ ...LIVE, connection: "watched" });
  expect(area.disabled).toBe(true);
  expect(drawn.container.textContent).not.toContain("Stop");
});

test("Escape stops a run when it is pressed twice", async () => {
  const { bridge } = await composer(LIVE);
  await drawn.key(document.body, "Escape");
  expect(bridge.requests).toEqual([]);
  expect(drawn.container.textContent).toContain("Press Esc again to stop");
  await drawn.key(document.body, "Escape");
  expect(bridge.requests).toEqual([{ type: "session.cancel", fields: { session_id: "s1" } }]);
});

test("while a run goes on, a prompt is queued, unless it is sent now", async () => {
  const { bridge, area } = await composer(LIVE);
  await drawn.type(area, "later");
  await drawn.press("Queue");
  await drawn.type(area, "now");
  await drawn.press("Send now");
  expect(bridge.requests.map((one) => one.fields.when)).toEqual(["queue", "now"]);
});

test("the arrow goes back through sent prompts, and only from an untouched field", async () => {
  const made = new RowBuilder();
  made.message("user", "first");
  made.message("user", "second");
  const { area } = await composer(IDLE, undefined, made);
  await drawn.key(area, "ArrowUp");
  expect(area.value).toBe("second");
  await drawn.key(area, "ArrowUp");
  expect(area.value).toBe("first");
  await drawn.key(area, "ArrowDown");
  await drawn.key(area, "ArrowDown");
  expect(area.value).toBe("");
  await drawn.type(area, "mine");
  await drawn.key(area, "ArrowUp");
  expect(area.value).toBe("mine");
});

test("prompts that wait can be moved, changed, sent at once and taken out", async () => {
  const queue = [
    { id: "1", text: "one", attachments: [], time: 0 },
    { id: "2", text: "two", attachments: ["a.md"], time: 0 },
  ];
  const bridge = new FakeBridge({ "queue.move": {}, "queue.remove": {}, "queue.edit": {} });
  await composer({ ...LIVE, queue }, bridge);
  const buttons = [...drawn.container.querySelectorAll<HTMLButtonElement>(".queue li:last-child button")];
  expect(buttons.map((button) => button.getAttribute("aria-label") ?? button.textContent)).toEqual([
    "Edit",
    "Send now",
    "Move up",
    "Move down",
    "Remove from the queue",
  ]);
  buttons[1]?.click();
  buttons[2]?.click();
  buttons[4]?.click();
  expect(bridge.requests).toEqual([
    { type: "queue.send", fields: { session_id: "s1", queued_id: "2" } },
    { type: "queue.move", fields: { session_id: "s1", queued_id: "2", to: 0 } },
    { type: "queue.remove", fields: { session_id: "s1", queued_id: "2" } },
  ]);
});
