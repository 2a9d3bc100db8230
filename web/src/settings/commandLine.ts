// Command lines: one argument per line in the form, quoted where they are shown in one line.

export function commandLine(command: string, args: readonly string[]): string {
  return [command, ...args].map(quoted).join(" ");
}

function quoted(word: string): string {
  return /^[\w@%+=:,./~-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}

/** One argument a line; empty lines are none. */
export function argumentsOf(text: string): readonly string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

/** `NAME=value` a line. Gives the variables, or the line that is none. */
export function variablesOf(text: string): { env: Record<string, string> } | { wrong: string } {
  const env: Record<string, string> = {};
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const [, name, value] = /^\s*([A-Za-z_]\w*)=(.*)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return { wrong: line.trim() };
    env[name] = value;
  }
  return { env };
}
