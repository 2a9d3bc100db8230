// The accesses: how much an agent may do without asking. The server has the same four.

export interface Access {
  readonly id: string;
  readonly name: string;
  readonly means: string;
}

export const ACCESSES: readonly Access[] = [
  { id: "read-only", name: "Read only", means: "It may look at the workspace. Writing and running are refused." },
  { id: "ask", name: "Ask", means: "It may look at the workspace. Before it writes or runs something, it asks you." },
  {
    id: "edit-inside",
    name: "Edit inside",
    means: "It may also write files within the workspace. Before it runs something, it asks you.",
  },
  { id: "full", name: "Full", means: "It may do everything without asking. Only where nothing can be lost." },
];
