import { expect, test } from "vitest";

import { DECIDED, RowBuilder } from "../dev/rowBuilder";
import { permissionAnswer, describeDecision, describePermission } from "./describe";

const builder = new RowBuilder();

test("a rule that answered is named with its source", () => {
  const decided = {
    ...DECIDED,
    decision: "allow",
    decided_by: "rule",
    rule: "allow execute git *",
    layer: "workspace",
  };
  const permission = builder.permission("x", { outcome: "selected", option_id: "once", ...decided });
  expect(describePermission(permission)).toBe("Allowed by the rule “allow execute git *” (workspace)");
});

test("a person's answer is described with the chosen option", () => {
  const decided = { ...DECIDED, decision: "deny", decided_by: "person" };
  expect(describePermission(builder.permission("x", { outcome: "selected", option_id: "no", ...decided }))).toBe(
    "Denied by you",
  );
});

test("a refusal is one whatever the agent calls its option", () => {
  expect(permissionAnswer(builder.permission("x", { outcome: "selected", option_id: "no" }))).toBe("denied");
  expect(permissionAnswer(builder.permission("x", { outcome: "cancelled" }))).toBe("withdrawn");
  expect(permissionAnswer(builder.permission("x"))).toBe("pending");
});

test("an undecided request has no description", () => {
  expect(describeDecision(DECIDED)).toBe("");
  expect(describeDecision({ ...DECIDED, decision: "deny", decided_by: "timeout" })).toBe(
    "Denied because nobody answered in time",
  );
});
