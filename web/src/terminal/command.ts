/** A command as a person would type it. */
export function commandLine({ command, args }: { readonly command: string; readonly args: readonly string[] }): string {
  return [command, ...args.map(quoted)].join(" ");
}

/** An argument as a shell reads it back. */
export function quoted(argument: string): string {
  return argument !== "" && /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
