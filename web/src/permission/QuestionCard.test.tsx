// @vitest-environment happy-dom
import { afterEach, expect, test } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { RowBuilder } from "../dev/rowBuilder";
import type { Question } from "../protocol";
import { QuestionCard } from "./QuestionCard";

let drawn: Rendered;
afterEach(() => drawn.end());

async function card(given: Partial<Question>) {
  const bridge = new FakeBridge({ "question.answer": { accepted: true } });
  drawn = await render(
    <QuestionCard bridge={bridge} sessionId="s1" question={new RowBuilder().question("Which?", given)} />,
  );
  return bridge;
}

const schema = {
  required: ["name"],
  properties: { name: { type: "string", title: "Name" }, count: { type: "integer", default: 2 } },
};

test("a form is sent when it fits, and says what does not", async () => {
  const bridge = await card({ schema });
  await drawn.press("Answer");
  expect(bridge.requests).toEqual([]);
  expect(drawn.container.textContent).toContain("Required");
  await drawn.type(drawn.container.querySelectorAll("input")[0] as HTMLInputElement, "Ada");
  await drawn.press("Answer");
  expect(bridge.requests[0]?.fields).toEqual({
    session_id: "s1",
    question_id: "q1",
    action: "accept",
    content: { name: "Ada", count: 2 },
  });
});

test("a question can be declined without filling anything in", async () => {
  const bridge = await card({ schema });
  await drawn.press("Decline");
  expect(bridge.requests[0]?.fields).toMatchObject({ action: "decline", content: null });
});

test("an address is shown in full, and one that would run something is no link", async () => {
  await card({ mode: "url", url: "https://example.com/login?x=1" });
  expect(drawn.container.querySelector("a")?.textContent).toBe("https://example.com/login?x=1");
  await drawn.end();
  await card({ mode: "url", url: "javascript:alert(1)" });
  expect(drawn.container.querySelector("a")).toBeNull();
});
