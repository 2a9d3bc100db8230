// Syntax highlighting, loaded with the first code block.

import { common, createLowlight } from "lowlight";

const lowlight = createLowlight(common);

/** Some text in one colour; `name` is the class of it, without one it has the text's own. */
export interface HighlightSpan {
  readonly text: string;
  readonly name: string | null;
}

type Tree = ReturnType<typeof lowlight.highlight>;
type Node = Tree["children"][number];

export function highlight(code: string, language: string): readonly HighlightSpan[] | null {
  if (!lowlight.registered(language)) return null;
  const stretches: HighlightSpan[] = [];
  for (const node of lowlight.highlight(language, code).children) collectSpans(node, null, stretches);
  return stretches;
}

function collectSpans(node: Node, name: string | null, into: HighlightSpan[]): void {
  if (node.type === "text") into.push({ text: node.value, name });
  if (node.type !== "element") return;
  const classes = node.properties.className;
  const own = Array.isArray(classes) && typeof classes[0] === "string" ? classes[0] : name;
  for (const child of node.children) collectSpans(child, own, into);
}
