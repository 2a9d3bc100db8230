import { expect, test } from "vitest";

import { DECIDED, Made } from "../dev/made";
import { answerOf, decisionWords, permissionWords } from "./decided";

const made = new Made();

test("a rule that answered is named with where it stands", () => {
  const decided = {
    ...DECIDED,
    decision: "allow",
    decided_by: "rule",
    rule: "allow execute git *",
    layer: "workspace",
  };
  const permission = made.permission("x", { outcome: "selected", option_id: "once", decided });
  expect(permissionWords(permission)).toBe("Allowed by the rule “allow execute git *” (workspace)");
});

test("a person's answer is told with the option they took", () => {
  const decided = { ...DECIDED, decision: "deny", decided_by: "person" };
  expect(permissionWords(made.permission("x", { outcome: "selected", option_id: "no", decided }))).toBe(
    "Denied by a person (“Reject”)",
  );
});

test("a refusal is one whatever the agent calls its option", () => {
  expect(answerOf(made.permission("x", { outcome: "selected", option_id: "no" }))).toBe("denied");
  expect(answerOf(made.permission("x", { outcome: "cancelled" }))).toBe("withdrawn");
  expect(answerOf(made.permission("x"))).toBe("pending");
});

test("what nobody decided says nothing", () => {
  expect(decisionWords(DECIDED)).toBe("");
  expect(decisionWords({ ...DECIDED, decision: "deny", decided_by: "timeout" })).toBe(
    "Denied because nobody answered in time",
  );
});
