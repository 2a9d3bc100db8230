// @vitest-environment happy-dom
import { afterEach, expect, test, vi } from "vitest";

import { FakeBridge, render, type Rendered } from "../dev/render";
import { RowBuilder } from "../dev/rowBuilder";
import type { Message } from "../protocol";
import { ConversationContext } from "./context";
import { loadedKey, withLoadedMessages } from "./Conversation";
import { TextView } from "./MessageViews";
import { countCharacters } from "./ShowWhole";

let drawn: Rendered;
afterEach(() => drawn?.end());

async function show(message: Message, bridge: FakeBridge, onLoaded: (message: Message) => void) {
  const nothing = () => {};
  const context = { bridge, sessionId: "s1", workspace: "/w", shownError: null, onLoaded };
  drawn = await render(
    <ConversationContext value={{ ...context, onOpenFile: nothing, onShowChanges: nothing, onAction: nothing }}>
      <TextView
        item={{ kind: "text", key: message.id, message, text: message.text, first: true, streaming: !message.ended }}
      />
    </ConversationContext>,
  );
}

test("the rest of a long message is loaded when it is asked for", async () => {
  const builder = new RowBuilder();
  const message = builder.message("assistant", "one 😀 ", { shortened: true });
  const bridge = new FakeBridge({ "session.row": { row: { ...message, text: "two", shortened: false } } });
  const onLoaded = vi.fn();
  await show(message, bridge, onLoaded);
  await drawn.press("Truncated: show more");
  expect(bridge.requests).toEqual([
    { type: "session.row", fields: { session_id: "s1", table: "messages", row_id: message.id, offset: 6 } },
  ]);
  const whole: Message = { ...message, text: "one 😀 two", shortened: false };
  expect(onLoaded).toHaveBeenCalledWith(whole);
  const loaded = new Map([[loadedKey("s1", message), whole]]);
  expect(withLoadedMessages("s1", builder.rows, loaded).messages).toEqual([whole]);
  expect(withLoadedMessages("s2", builder.rows, loaded).messages).toEqual([message]);
});

test("a message that is complete, or still being written, has no rest to load", async () => {
  for (const given of [{ shortened: false }, { shortened: true, ended: false }]) {
    await show(new RowBuilder().message("assistant", "one", given), new FakeBridge(), () => {});
    expect(drawn.container.textContent).not.toContain("Truncated");
    await drawn.end();
  }
});

test("characters are counted as the server counts them", () => {
  expect(countCharacters("aä€😀")).toBe(4);
});
