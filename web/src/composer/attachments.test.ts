import { expect, test } from "vitest";

import { LIVE } from "../dev/rowBuilder";
import { attach, AttachmentError, unsupportedAttachments } from "./attachments";

test("the kind of a file follows from its content", async () => {
  expect(await attach(new File([new Uint8Array([1, 2])], "a.png", { type: "image/png" }))).toEqual({
    type: "image",
    mime_type: "image/png",
    data: "AQI=",
    name: "a.png",
  });
  expect(await attach(new File(["héllo"], "a.txt"))).toEqual({ type: "text", name: "a.txt", text: "héllo" });
  // A picture that can hold scripts goes as the text that it is.
  expect(await attach(new File(["<svg/>"], "a.svg", { type: "image/svg+xml" }))).toEqual({
    type: "text",
    name: "a.svg",
    text: "<svg/>",
  });
});

test("a file that no agent can take is refused with why", async () => {
  await expect(attach(new File([new Uint8Array([0xff, 0xfe, 0])], "a.bin"))).rejects.toThrow(AttachmentError);
  await expect(attach(new File([new Uint8Array(7 * 1024 * 1024)], "big.txt"))).rejects.toThrow(
    "big.txt is too large: 7.0 MB; the limit is 6.0 MB.",
  );
});

test("an attachment that the agent does not accept is refused before it is sent", () => {
  const image = { type: "image" as const, mime_type: "image/png", data: "" };
  const abilities = { ...LIVE.capabilities, image: false };
  expect(unsupportedAttachments([image], { connection: "connected", capabilities: abilities })).toEqual([
    "This agent does not accept images. Remove them to send.",
  ]);
  expect(unsupportedAttachments([image], LIVE)).toEqual([]);
  expect(unsupportedAttachments([image], { connection: "none", capabilities: abilities })).toEqual([]);
});
