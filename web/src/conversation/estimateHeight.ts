import type { Item } from "./items";

/** Estimates the height of an item in pixels before it is rendered. A good estimate keeps the scroll bar steady. */
export function estimateHeight(item: Item): number {
  switch (item.kind) {
    case "user":
      return 42 + Math.min(300, (Math.ceil(item.message.text.length / 65) + countLines(item.message.text)) * 23);
    case "text":
      return item.text.includes("```")
        ? 60 + countLines(item.text) * 20
        : 20 + Math.ceil(item.text.length / 90) * 23 + countParagraphs(item.text) * 12;
    case "thought":
    case "group":
    case "notice":
      return 28;
    case "step":
      return item.open ? (item.step.diffs.length > 0 ? 300 : 120) : 28;
    case "permission":
    case "question":
      return 220;
    case "end":
      return 44;
  }
}

function countLines(text: string): number {
  return text.match(/\n/g)?.length ?? 0;
}

function countParagraphs(text: string): number {
  return text.match(/\n\n/g)?.length ?? 0;
}
