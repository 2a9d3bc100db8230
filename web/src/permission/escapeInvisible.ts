/** Characters that cannot be seen, and those that turn the order of others around, as what they are: `⟨U+202E⟩`. */
const INVISIBLE = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff]/g;

/** A text that someone decides by: what is read must be what will happen. */
export function escapeInvisible(text: string): string {
  const named = (letter: string) => letter.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
  return text.replace(INVISIBLE, (letter) => `⟨U+${named(letter)}⟩`);
}
