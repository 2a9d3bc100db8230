import { imageData, LinkView, Markdown } from "../markdown";
import type { Block } from "../protocol";
import { Output } from "../terminal";
import { baseName } from "../ui/format";

/** A part of a message or of a tool's answer that is more than text. */
export function BlockView({ block, plain = false }: { block: Block; plain?: boolean }) {
  switch (block.type) {
    case "text":
      // Command output is not Markdown, unless the agent wrapped it in a code fence.
      return plain && !block.text.trimStart().startsWith("```") ? (
        <Output text={block.text} />
      ) : (
        <Markdown text={block.text} />
      );
    case "image": {
      const source = imageData(block.mime_type, block.data);
      return source ? (
        <img className="picture" src={source} alt={block.uri ?? "image"} />
      ) : (
        <Unshown what={`an image of type ${block.mime_type}`} />
      );
    }
    case "audio":
      return <Unshown what={`audio of type ${block.mime_type}`} />;
    case "resource":
      return (
        <details className="resource">
          <summary title={block.uri}>{baseName(block.uri)}</summary>
          {block.text === null ? (
            <Unshown what={`a file of type ${block.mime_type ?? "unknown"}`} />
          ) : (
            <Output text={block.text} name={block.uri} />
          )}
        </details>
      );
    case "resource_link":
      return (
        <p className="resource" title={block.description ?? undefined}>
          <LinkView href={block.uri}>{block.title ?? block.name}</LinkView>
        </p>
      );
    case "unknown":
      return <Unshown what={`content of type ${block.kind}`} />;
  }
}

function Unshown({ what }: { what: string }) {
  return <p className="soft">Cannot show {what}.</p>;
}
