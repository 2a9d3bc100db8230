/** A command as a person would type it. */
export function commandLine({ command, args }: { readonly command: string; readonly args: readonly string[] }): string {
  return [command, ...args.map(shellQuote)].join(" ");
}

/** An argument as a shell reads it back. */
export function shellQuote(argument: string): string {
  return argument !== "" && /^[\w@%+=:,./-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;
}
