// @vitest-environment happy-dom
import { afterEach, expect, test } from "vitest";

import { render, FakeBridge, type Rendered } from "../dev/render";
import { formField, RowBuilder } from "../dev/rowBuilder";
import type { ErrorDetails, Form, Question } from "../protocol";
import { RequestError } from "../socket/requests";
import { QuestionCard } from "./QuestionCard";

let drawn: Rendered;
afterEach(() => drawn.end());

async function card(given: Partial<Question>, answer: { accepted: boolean } | Error = { accepted: true }) {
  const bridge = new FakeBridge({ "question.answer": answer });
  drawn = await render(
    <QuestionCard bridge={bridge} sessionId="s1" question={new RowBuilder().question("Which?", given)} />,
  );
  return bridge;
}

const form: Form = {
  fields: [
    formField("text", "name", { title: "Name", required: true }),
    formField("number", "count", { whole: true, default: 2 }),
  ],
  left_out: [],
  error: null,
};

function refusal(details: Partial<ErrorDetails>): RequestError {
  return new RequestError({
    kind: "invalid",
    message: "the answer does not fit the form",
    guidance: "",
    field: "content",
    retry_after: null,
    error: null,
    stderr: "",
    fields: {},
    ...details,
  });
}

test("the server's message about a field is shown beside it, and the form can be sent again", async () => {
  const bridge = await card({ form }, refusal({ fields: { name: "is required" } }));
  await drawn.press("Answer");
  expect(bridge.requests).toHaveLength(1);
  expect([...drawn.container.querySelectorAll("[role=alert]")].map((alert) => alert.textContent)).toEqual([
    "This is required.",
  ]);
  expect(drawn.container.querySelector("input")?.getAttribute("aria-invalid")).toBe("true");
  await drawn.press("Answer");
  expect(bridge.requests).toHaveLength(2);
});

test("a refusal that is about no field of the form is shown below it", async () => {
  await card({ form }, refusal({ message: "the session is not open", field: null }));
  await drawn.press("Answer");
  expect(drawn.container.querySelector("[role=alert]")?.textContent).toBe("the session is not open");
});

test("a form that cannot be answered says why, and can only be declined", async () => {
  const error = "the form requires fields of an unknown kind: shape";
  await card({ form: { fields: [], left_out: ["shape"], error } });
  expect(drawn.container.textContent).toContain(error);
  expect(drawn.find("Answer").matches(":disabled")).toBe(true);
  expect(drawn.find("Decline").matches(":disabled")).toBe(false);
});

test("properties that cannot be shown are named", async () => {
  await card({ form: { ...form, left_out: ["shape"] } });
  expect(drawn.container.textContent).toContain("The agent also asks for shape");
});

test("a form is sent with its values in their own types", async () => {
  const bridge = await card({ form });
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
  const bridge = await card({ form });
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
