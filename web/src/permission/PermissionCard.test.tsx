// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { RowBuilder } from "../dev/rowBuilder";
import type { Permission, Scope } from "../protocol";
import { PermissionCard } from "./PermissionCard";
import { ScopeContext } from "./scope";

let drawn: Rendered;
let now = 0;
beforeEach(() => {
  now = 0;
  vi.spyOn(performance, "now").mockImplementation(() => now);
});
afterEach(async () => {
  await drawn.end();
  vi.restoreAllMocks();
});

async function card(
  given: Partial<Permission> = {},
  bridge = new FakeBridge({
    "permission.answer": { accepted: true },
    "policy.preview": { rules: ["allow execute rm *"], only_files: [], error: "" },
  }),
  scope: Scope = "admin",
) {
  const permission = new RowBuilder().permission("Run rm", { raw_input: { command: "rm -rf build" }, ...given });
  drawn = await render(
    <ScopeContext value={scope}>
      <PermissionCard
        bridge={bridge}
        sessionId="s1"
        workspace="/w"
        permission={permission}
        keys
        onOpenFile={() => {}}
      />
    </ScopeContext>,
  );
  return bridge;
}

const answers = (bridge: FakeBridge) =>
  bridge.requests.filter((one) => one.type === "permission.answer").map((one) => one.fields);

test("the action is shown before the answers", async () => {
  await card();
  const text = drawn.container.textContent ?? "";
  expect(text.indexOf("rm -rf build")).toBeGreaterThan(-1);
  expect(text.indexOf("rm -rf build")).toBeLessThan(text.indexOf("Allow once"));
});

test("a request that no rule can answer says why, before the answers", async () => {
  await card({ asked_because: "write .git/\u202econfig, which always needs your approval: git runs programs from it" });
  const text = drawn.container.textContent ?? "";
  const sentence = "Write .git/⟨U+202E⟩config, which always needs your approval: git runs programs from it.";
  expect(drawn.container.querySelector(".guarded")?.textContent).toBe(sentence);
  expect(text.indexOf(sentence)).toBeLessThan(text.indexOf("Allow once"));
});

test("an ordinary request gives no reason", async () => {
  await card();
  expect(drawn.container.querySelector(".guarded")).toBeNull();
});

test("a number answers with the agent's own option", async () => {
  const bridge = await card();
  now = 5000;
  await drawn.key(document.body, "3");
  expect(answers(bridge)).toEqual([{ session_id: "s1", permission_id: "p1", option_id: "no" }]);
});

test("a number that is pressed as the card appears answers nothing", async () => {
  const bridge = await card();
  now = 100;
  await drawn.key(document.body, "1");
  expect(answers(bridge)).toEqual([]);
});

test("a number that is typed into a text answers nothing, unless with Alt", async () => {
  const bridge = await card();
  const area = document.createElement("textarea");
  document.body.append(area);
  now = 5000;
  await drawn.key(area, "1");
  expect(answers(bridge)).toEqual([]);
  await drawn.key(area, "¡", { altKey: true, code: "Digit1" });
  area.remove();
  expect(answers(bridge)).toMatchObject([{ option_id: "once" }]);
});

test("one press is one answer", async () => {
  const bridge = await card();
  now = 5000;
  await drawn.key(document.body, "1");
  await drawn.key(document.body, "1");
  expect(answers(bridge).length).toBe(1);
});

test("always shows the rule before it is saved", async () => {
  const bridge = await card();
  now = 5000;
  await drawn.key(document.body, "4");
  expect(answers(bridge)).toEqual([]);
  expect(drawn.container.textContent).toContain("allow execute rm *");
  await drawn.press("Save the rule and allow");
  expect(answers(bridge)).toEqual([{ session_id: "s1", permission_id: "p1", answer: "allow", always: true }]);
});

test("the agent's own lasting answer shows the rule before it is saved, too", async () => {
  const bridge = await card();
  now = 5000;
  await drawn.key(document.body, "2");
  expect(answers(bridge)).toEqual([]);
  expect(drawn.container.textContent).toContain("allow execute rm *");
  await drawn.press("Save the rule and allow");
  expect(answers(bridge)).toEqual([{ session_id: "s1", permission_id: "p1", option_id: "always" }]);
});

test("an always can be narrowed to the file, and the agent is then told once", async () => {
  const bridge = await card(
    {},
    new FakeBridge({
      "permission.answer": { accepted: true },
      "policy.preview": {
        rules: ["allow kind edit, path /w/**"],
        only_files: ["allow kind edit, path /w/a"],
        error: "",
      },
    }),
  );
  now = 5000;
  await drawn.key(document.body, "2");
  expect(drawn.container.querySelector(".rule")?.textContent).toBe("allow kind edit, path /w/**");
  await drawn.act(() => (drawn.container.querySelector('.always input[type="checkbox"]') as HTMLElement).click());
  expect(drawn.container.querySelector(".rule")?.textContent).toBe("allow kind edit, path /w/a");
  await drawn.press("Save the rule and allow");
  expect(answers(bridge)).toEqual([
    { session_id: "s1", permission_id: "p1", answer: "allow", always: true, only_files: true },
  ]);
});

test("where no rule can be made, why is said and nothing can be saved", async () => {
  await card(
    {},
    new FakeBridge({ "policy.preview": { rules: [], only_files: [], error: "This is too wide for a rule." } }),
  );
  await drawn.press("4 Always in this workspace…");
  expect(drawn.container.textContent).toContain("This is too wide for a rule.");
  expect((drawn.find("Save the rule and allow") as HTMLButtonElement).disabled).toBe(true);
});

test("a permission of the host is remembered only by a rule that was shown", async () => {
  await card({ origin: "files" });
  const buttons = [...drawn.container.querySelectorAll(".choices button, .own-choice button")].map((button) =>
    button.textContent?.trim(),
  );
  expect(buttons).toEqual(["1 Allow once", "2 Deny", "3 Always in this workspace…"]);
});

test("an option is named by its effect, with the agent's own words beside it", async () => {
  await card({
    options: [
      { option_id: "a", name: "Reject", kind: "allow_always" },
      { option_id: "b", name: "Yes, \u202eon", kind: "allow_once" },
      { option_id: "c", name: "reject", kind: "reject_once" },
      { option_id: "d", name: "Yes", kind: "reject_always" },
      { option_id: "e", name: "Perhaps", kind: "maybe" },
    ],
  });
  const buttons = [...drawn.container.querySelectorAll(".choices button")].map((button) => button.textContent?.trim());
  expect(buttons).toEqual([
    "1 Allow always “Reject”",
    "2 Allow once “Yes, ⟨U+202E⟩on”",
    "3 Deny",
    "4 Deny always “Yes”",
    "5 Other “Perhaps”",
  ]);
});

test("without the scope for rules none is offered, and a viewer is told so", async () => {
  await card({}, new FakeBridge({}), "prompt");
  expect(drawn.container.textContent).toContain("Allow once");
  expect(drawn.container.textContent).not.toContain("Always in this workspace");
  await drawn.end();
  const bridge = await card({}, new FakeBridge({ "permission.answer": { accepted: true } }), "view");
  expect(drawn.container.querySelectorAll(".choices button, .own-choice button").length).toBe(0);
  expect(drawn.container.textContent).toContain("view access only");
  now = 5000;
  await drawn.key(document.body, "1");
  expect(answers(bridge)).toEqual([]);
});

test("the rest of a long request can be loaded before it is answered", async () => {
  const row = new RowBuilder().permission("Run rm", { raw_input: { command: "rm -rf build and all the rest" } });
  await card({ shortened: true }, new FakeBridge({ "session.row": { row } }));
  await drawn.press("Truncated: show all");
  expect(drawn.container.textContent).toContain("rm -rf build and all the rest");
});

test("an answer that came too late is said to be so", async () => {
  await card({}, new FakeBridge({ "permission.answer": { accepted: false } }));
  await drawn.press("1 Allow once");
  expect(drawn.container.textContent).toContain("answered elsewhere");
});

test("an answer that did not arrive can be given again", async () => {
  await card({}, new FakeBridge({ "permission.answer": new Error("The connection is gone.") }));
  await drawn.press("1 Allow once");
  expect(drawn.container.textContent).toContain("The connection is gone.");
  expect((drawn.find("1 Allow once") as HTMLButtonElement).disabled).toBe(false);
});

test("afterwards it says how it was answered", async () => {
  await card({
    outcome: "selected",
    option_id: "once",
    decision: "allow",
    decided_by: "rule",
    reason: null,
    rule: "allow execute rm *",
    layer: "user",
    remembered: [],
  });
  expect(drawn.container.querySelectorAll(".choices").length).toBe(0);
  expect(drawn.container.textContent).toContain("Allowed by the rule “allow execute rm *” (user)");
});
