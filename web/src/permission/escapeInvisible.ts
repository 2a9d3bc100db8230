/** Invisible characters, and those that reverse the order of others. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** Replaces invisible characters by their code, such as `⟨U+202E⟩`: people must see exactly what they approve. */
export function escapeInvisible(text: string): string {
  const named = (letter: string) => letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return text.replace(INVISIBLE, (letter) => `⟨U+${named(letter)}⟩`);
}
