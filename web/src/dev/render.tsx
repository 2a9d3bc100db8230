// Renders a component in a test, and acts on it like a user.

import { act, type ReactNode } from "react";
import { createRoot, type Root } from "react-dom/client";

import type { Bridge } from "../conversation/bridge";
import type { ResultOf } from "../protocol";
import type { RequestType } from "../socket/requests";

(globalThis as { IS_REACT_ACT_ENVIRONMENT?: boolean }).IS_REACT_ACT_ENVIRONMENT = true;

export interface Rendered {
  readonly container: HTMLElement;
  again(node: ReactNode): Promise<void>;
  /** The element with this text or accessible name. */
  find(name: string): HTMLElement;
  press(name: string): Promise<void>;
  type(element: HTMLElement, text: string): Promise<void>;
  key(element: EventTarget, key: string, options?: KeyboardEventInit): Promise<KeyboardEvent>;
  act(action: () => void): Promise<void>;
  end(): Promise<void>;
}

export async function render(node: ReactNode): Promise<Rendered> {
  const container = document.createElement("div");
  document.body.append(container);
  const root: Root = createRoot(container);
  const again = (next: ReactNode) => runInAct(() => root.render(next));
  const find = (name: string): HTMLElement => {
    const all = [...container.querySelectorAll<HTMLElement>("button, a, input, textarea, select, [role]")];
    const match = all.find((one) => nameOf(one) === name);
    if (!match) throw new Error(`There is no “${name}” among ${all.map(nameOf).join(" | ")}`);
    return match;
  };
  await again(node);
  return {
    container: container,
    again,
    find,
    press: (name) => runInAct(() => find(name).click()),
    type: (element, text) =>
      runInAct(() => {
        // React looks at the value's own setter, past the one it put on the element.
        const prototype =
          element instanceof HTMLTextAreaElement ? HTMLTextAreaElement.prototype : HTMLInputElement.prototype;
        Object.getOwnPropertyDescriptor(prototype, "value")?.set?.call(element, text);
        if (element instanceof HTMLTextAreaElement) element.setSelectionRange(text.length, text.length);
        element.dispatchEvent(new Event("input", { bubbles: true }));
      }),
    key: async (element, key, options = {}) => {
      const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true, ...options });
      await runInAct(() => element.dispatchEvent(event));
      return event;
    },
    act: runInAct,
    end: async () => {
      await runInAct(() => root.unmount());
      container.remove();
    },
  };
}

function nameOf(element: HTMLElement): string {
  return (element.getAttribute("aria-label") ?? element.textContent ?? "").trim();
}

async function runInAct(action: () => void): Promise<void> {
  await act(async () => action());
}

/** A promise that the test settles. */
class Deferred<T> {
  resolve: (value: T) => void = () => {};
  reject: (error: Error) => void = () => {};
  readonly promise = new Promise<T>((resolve, reject) => {
    this.resolve = resolve;
    this.reject = reject;
  });
}

type Answers = { [T in RequestType]?: ResultOf[T] | Error };

/** A bridge with fixed answers that records the requests. */
export class FakeBridge implements Bridge {
  readonly requests: { type: RequestType; fields: Record<string, unknown> }[] = [];

  private readonly deferred: { type: RequestType; promise: Promise<unknown> }[] = [];

  constructor(private readonly answers: Answers = {}) {}

  /** Let the next request of this type wait for an answer that the test gives. */
  hold<T extends RequestType>(type: T): Deferred<ResultOf[T]> {
    const deferred = new Deferred<ResultOf[T]>();
    this.deferred.push({ type, promise: deferred.promise });
    return deferred;
  }

  request: Bridge["request"] = (type, fields) => {
    this.requests.push({ type, fields });
    const next = this.deferred.findIndex((one) => one.type === type);
    const [deferred] = next < 0 ? [] : this.deferred.splice(next, 1);
    if (deferred) return deferred.promise as Promise<ResultOf[typeof type]>;
    const answer = this.answers[type] ?? new Error(`the test has no answer to ${type}`);
    // The compiler cannot relate the answer to the request type.
    return answer instanceof Error ? Promise.reject(answer) : Promise.resolve(answer as ResultOf[typeof type]);
  };

  subscribe: Bridge["subscribe"] = () => () => {};
}
