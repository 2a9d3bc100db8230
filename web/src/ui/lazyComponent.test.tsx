// @vitest-environment happy-dom
import { Suspense, useState } from "react";
import { afterEach, expect, test } from "vitest";

import { render, type Rendered } from "../dev/render";
import { lazyComponent } from "./lazyComponent";

let drawn: Rendered;
afterEach(() => drawn.end());

function Counter({ name }: { name: string }) {
  const [count, setCount] = useState(0);
  return (
    <button type="button" onClick={() => setCount(count + 1)}>
      {name} {count}
    </button>
  );
}

test("the fallback is shown until the code is loaded, and the component keeps its state afterwards", async () => {
  let finish = (_: typeof Counter) => {};
  const Lazy = lazyComponent<{ name: string }>(
    () =>
      new Promise((resolve) => {
        finish = resolve;
      }),
  );
  const view = (name: string) => (
    <Suspense fallback="loading">
      <Lazy name={name} />
    </Suspense>
  );
  drawn = await render(view("a"));
  expect(drawn.container.textContent).toBe("loading");
  finish(Counter);
  await drawn.again(view("a"));
  await drawn.press("a 0");
  await drawn.again(view("b"));
  expect(drawn.container.textContent).toBe("b 1");
});

test("a component that was preloaded renders at once", async () => {
  let loads = 0;
  const Lazy = lazyComponent<{ name: string }>(async () => {
    loads++;
    return Counter;
  });
  await Lazy.preload();
  await Lazy.preload();
  drawn = await render(<Lazy name="a" />); // without a fallback
  expect([drawn.container.textContent, loads]).toEqual(["a 0", 1]);
});
