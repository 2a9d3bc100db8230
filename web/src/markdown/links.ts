// Addresses in an agent's text: a web page, a file of the workspace, or neither.

export type Target =
  | { readonly kind: "web"; readonly href: string }
  | { readonly kind: "file"; readonly path: string; readonly line: number | null }
  | { readonly kind: "none" };

const NONE: Target = { kind: "none" };

/** Control characters and spaces that browsers leave out of an address before they read its scheme. */
const INVISIBLE = /[\u0000-\u0020\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060\ufeff]/g;

export function target(address: string): Target {
  const plain = address.replace(INVISIBLE, "");
  if (plain === "" || plain.startsWith("#") || plain.startsWith("//")) return NONE;
  const scheme = /^([a-z][a-z0-9+.-]*):/i.exec(plain)?.[1]?.toLowerCase();
  if (scheme === "http" || scheme === "https" || scheme === "mailto") return web(plain);
  if (scheme === "file") return file(plain.replace(/^file:(\/\/[^/]*)?/i, ""));
  // `src/parse.py:12` is a path and a line, though it looks like a scheme.
  if (scheme !== undefined && !/^[^:]+:\d+(:\d+)?$/.test(plain)) return NONE;
  return file(address.trim());
}

function web(address: string): Target {
  try {
    return { kind: "web", href: new URL(address).href };
  } catch {
    return NONE;
  }
}

function file(address: string): Target {
  const found = /^(.*?)(?:#L(\d+).*|:(\d+)(?::\d+)?)?$/.exec(decoded(address));
  const path = found?.[1] ?? "";
  const line = found?.[2] ?? found?.[3];
  return path === "" ? NONE : { kind: "file", path, line: line === undefined ? null : Number(line) };
}

function decoded(address: string): string {
  try {
    return decodeURIComponent(address);
  } catch {
    return address;
  }
}

/** The source of an image whose data is in the address itself. Nothing is fetched for an image. */
export function picture(address: string): string | null {
  return /^data:image\/(png|jpe?g|gif|webp|avif|bmp|svg\+xml)[;,]/i.test(address) ? address : null;
}

/** The address of an image that came as bytes. */
export function imageData(mimeType: string, data: string): string | null {
  return picture(`data:${mimeType};base64,${data}`);
}
