// The access levels: what an agent may do without asking. The server has the same four.

export interface Access {
  readonly id: string;
  readonly name: string;
  readonly means: string;
}

export const ACCESSES: readonly Access[] = [
  {
    id: "read-only",
    name: "Read only",
    means: "May read the workspace. Writing files and running commands are denied.",
  },
  { id: "ask", name: "Ask", means: "May read the workspace. Asks you before it writes files or runs commands." },
  {
    id: "edit-inside",
    name: "Edit inside",
    means: "May also write files in the workspace. Asks you before it runs commands.",
  },
  { id: "full", name: "Full", means: "May do everything without asking. Use it only where nothing can be lost." },
];
