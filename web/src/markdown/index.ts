export { useHighlight } from "./CodeBlock";
export { CopyButton } from "./CopyButton";
export { imageData, target } from "./links";
export { LinkView, Markdown, OpenFileContext } from "./Markdown";
