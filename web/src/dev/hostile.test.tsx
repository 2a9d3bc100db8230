// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test } from "vitest";

import { DiffView } from "../diff";
import { Markdown } from "../markdown";
import { PlanView } from "../panel/PlanView";
import { PermissionCard, QuestionCard } from "../permission";
import type { DiffItem } from "../protocol";
import { Output } from "../terminal";
import { render, FakeBridge, type Rendered } from "./render";
import { hostile, HOSTILE } from "./hostile";

let drawn: Rendered;
beforeEach(() => localStorage.clear());
afterEach(() => drawn.end());

test("no text of an agent becomes an element that runs or fetches something", async () => {
  const { rows } = hostile();
  const bridge = new FakeBridge();
  const diffs = rows.tool_calls.flatMap((call) =>
    call.content.filter((item): item is DiffItem => item.type === "diff"),
  );
  drawn = await render(
    <>
      <Markdown text={HOSTILE} />
      <Markdown text={HOSTILE} streaming />
      {rows.messages.map((message) => (
        <Markdown key={message.id} text={message.text} />
      ))}
      {rows.permissions.map((one) => (
        <PermissionCard
          key={one.id}
          bridge={bridge}
          sessionId="s1"
          workspace="<b>"
          permission={one}
          onOpenFile={() => {}}
        />
      ))}
      {rows.questions.map((one) => (
        <QuestionCard key={one.id} bridge={bridge} sessionId="s1" question={one} />
      ))}
      {rows.plans.map((plan) => (
        <PlanView key={plan.id} plan={plan} />
      ))}
      {diffs.map((diff) => (
        <DiffView key={diff.path} item={diff} />
      ))}
      {rows.terminals.map((terminal) => (
        <Output key={terminal.id} text={terminal.output ?? ""} />
      ))}
    </>,
  );
  // Icons of the page's own are the only drawings.
  expect(
    drawn.container.querySelectorAll("script, iframe, object, embed, link, style, svg:not(.icon), img, b").length,
  ).toBe(0);
  for (const element of drawn.container.querySelectorAll("*")) {
    for (const { name, value } of element.attributes) {
      expect(name.startsWith("on")).toBe(false);
      if (name === "href" || name === "src") expect(value).toMatch(/^(https?:|mailto:|data:image\/)/);
    }
  }
});
