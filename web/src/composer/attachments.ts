// Dropped and pasted files as attachments, and which of them an agent does not accept.

import type { Attachment, SessionState } from "../protocol";

export type InlineAttachment = Exclude<Attachment, { type: "file" }>;

/** Larger ones do not fit in one message to the server. */
const MAX_FILE_BYTES = 6 * 1024 * 1024;

export class AttachmentError extends Error {}

export async function attach(file: File): Promise<InlineAttachment> {
  const name = file.name || "pasted";
  if (file.size > MAX_FILE_BYTES)
    throw new AttachmentError(
      `${name} is too large: ${megabytes(file.size)}; the limit is ${megabytes(MAX_FILE_BYTES)}.`,
    );
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (/^image\/(png|jpeg|gif|webp|avif|bmp)$/.test(file.type))
    return { type: "image", mime_type: file.type, data: base64(bytes), name };
  if (file.type.startsWith("audio/")) return { type: "audio", mime_type: file.type, data: base64(bytes), name };
  const text = textOf(bytes);
  if (text === null) throw new AttachmentError(`${name} is not text, an image or audio, so it cannot be attached.`);
  return { type: "text", name, text };
}

function megabytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MB`;
}

function base64(bytes: Uint8Array): string {
  let letters = "";
  // In parts: a call takes only so many arguments.
  for (let at = 0; at < bytes.length; at += 0x8000) letters += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(letters);
}

function textOf(bytes: Uint8Array): string | null {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    return text.includes("\u0000") ? null : text;
  } catch {
    return null;
  }
}

/** The reasons why these attachments cannot be sent. An agent that is not connected has not declared any limits yet. */
export function unsupportedAttachments(
  attachments: readonly Attachment[],
  { connection, capabilities }: Pick<SessionState, "connection" | "capabilities">,
): readonly string[] {
  if (connection !== "connected") return [];
  const reasons: string[] = [];
  if (!capabilities.image && attachments.some((one) => one.type === "image"))
    reasons.push("This agent does not accept images. Remove them to send.");
  if (!capabilities.audio && attachments.some((one) => one.type === "audio"))
    reasons.push("This agent does not accept audio. Remove it to send.");
  return reasons;
}
