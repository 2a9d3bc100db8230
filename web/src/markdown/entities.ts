// Character references such as `&amp;` and `&#8364;` in the text of a Markdown document.

import { decodeNamedCharacterReference } from "decode-named-character-reference";
import { decodeNumericCharacterReference } from "micromark-util-decode-numeric-character-reference";

const REFERENCE = /&(?:#x([0-9a-f]{1,6})|#(\d{1,7})|([a-z][a-z0-9]{1,31}));/gi;

/** Replaces HTML's character references by their characters; unknown ones stay as they are. */
export function decodeEntities(text: string): string {
  if (!text.includes("&")) return text;
  return text.replace(REFERENCE, (reference, hex?: string, decimal?: string, name?: string) => {
    if (name !== undefined) return decodeNamedCharacterReference(name) || reference;
    return hex !== undefined
      ? decodeNumericCharacterReference(hex, 16)
      : decodeNumericCharacterReference(decimal ?? "", 10);
  });
}
