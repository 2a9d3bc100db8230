// @vitest-environment happy-dom
import { afterEach, beforeEach, expect, test, vi } from "vitest";

import { render, type Rendered } from "../dev/render";
import { Markdown } from "../markdown";
import { Boundary } from "./Boundary";

vi.mock("../markdown/MathView", () => ({
  MathView: () => {
    throw new Error("no formulas today");
  },
}));

let drawn: Rendered;
beforeEach(() => {
  vi.spyOn(console, "error").mockImplementation(() => {});
});
afterEach(async () => {
  await drawn.end();
  vi.restoreAllMocks();
});

function Broken(): never {
  throw new Error("broken");
}

test("a message that cannot be rendered is shown as it is written, and the others as always", async () => {
  drawn = await render(
    <>
      <Markdown text="**before**" />
      <Markdown text="*so* $x^2$" />
      <Markdown text="**after**" />
    </>,
  );
  expect([...drawn.container.querySelectorAll("strong")].map((one) => one.textContent)).toEqual(["before", "after"]);
  expect(drawn.container.querySelector(".as-written")?.textContent).toBe("*so* $x^2$");
});

test("a message is rendered again when it has changed", async () => {
  drawn = await render(<Markdown text="$x^2$" />);
  await drawn.again(<Markdown text="**better**" />);
  expect(drawn.container.querySelector("strong")?.textContent).toBe("better");
});

test("without a fallback the error is shown", async () => {
  drawn = await render(
    <Boundary place="here">
      <Broken />
    </Boundary>,
  );
  expect(drawn.container.textContent).toContain("This view crashed");
});
