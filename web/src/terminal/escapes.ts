// Terminal text without its escape sequences, shown until the terminal emulator is loaded.

// Escapes with a string that ends by BEL or ST (titles, links), those with parameters, and the short ones.
const ESCAPES = /\u001b(?:[\]PX^_][\s\S]*?(?:\u0007|\u001b\\)|\[[0-?]*[ -/]*[@-~]|[ -/]*[0-~])/g;
const CONTROLS = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g;

export function stripEscapes(text: string): string {
  return text.replace(ESCAPES, "").replace(/\r\n/g, "\n").replace(CONTROLS, "");
}

export function hasEscapes(text: string): boolean {
  return /[\u001b\r\b]/.test(text);
}

export function bytesOf(base64: string): Uint8Array {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

export function base64Of(text: string): string {
  return btoa(Array.from(new TextEncoder().encode(text), (byte) => String.fromCharCode(byte)).join(""));
}
