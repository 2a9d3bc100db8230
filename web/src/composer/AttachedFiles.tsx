import { useRef } from "react";

import { imageData } from "../markdown";
import { IconButton } from "../ui/Button";
import type { InlineAttachment } from "./attachments";

/** Opens the browser's own choice of files. */
export function AttachButton({ disabled, onFiles }: { disabled: boolean; onFiles: (files: File[]) => void }) {
  const input = useRef<HTMLInputElement>(null);
  return (
    <>
      <IconButton icon="add" label="Attach files" disabled={disabled} onClick={() => input.current?.click()} />
      <input
        ref={input}
        type="file"
        multiple
        hidden
        onChange={(event) => {
          onFiles([...(event.target.files ?? [])]);
          event.target.value = "";
        }}
      />
    </>
  );
}

/** Files that were dropped or pasted and are not sent yet. */
export function Attachments({
  dropped,
  onRemove,
}: {
  dropped: readonly InlineAttachment[];
  onRemove: (at: number) => void;
}) {
  if (dropped.length === 0) return null;
  return (
    <ul className="attachments" aria-label="Attachments">
      {dropped.map((one, at) => {
        const picture = one.type === "image" ? imageData(one.mime_type, one.data) : null;
        return (
          <li key={at} className="chip">
            {picture && <img className="thumbnail" src={picture} alt={one.name ?? "image"} />}
            {one.name || one.type}
            <IconButton icon="close" label={`Remove ${one.name || one.type}`} onClick={() => onRemove(at)} />
          </li>
        );
      })}
    </ul>
  );
}
