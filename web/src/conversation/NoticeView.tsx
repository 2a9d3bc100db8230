import { memo } from "react";

import { Markdown } from "../markdown";
import type { Notice } from "../protocol";
import type { Item } from "./items";

interface Props {
  item: Extract<Item, { kind: "notice" }>;
  onToggle: () => void;
}

/** A notice of the agent: one line, expandable if there is more text. */
export const NoticeView = memo(function NoticeView({ item, onToggle }: Props) {
  const { notice, open } = item;
  const bad = notice.severity === "error" || notice.severity === "warning";
  const words = noticeTitle(notice);
  if (!notice.text) return <p className={bad ? "notice-line bad" : "notice-line"}>{words}</p>;
  return (
    <div className="thought">
      <button type="button" className={bad ? "fold bad" : "fold"} aria-expanded={open} onClick={onToggle}>
        {words}
      </button>
      {open && (
        <div className="thought-text">
          <Markdown text={notice.text} />
        </div>
      )}
    </div>
  );
});

export function noticeTitle(notice: Notice): string {
  if (notice.kind === "notice") return notice.title;
  switch (notice.status) {
    case "in_progress":
      return "Compacting the conversation…";
    case "failed":
      return "The conversation could not be compacted";
    case "cancelled":
      return "Compacting was cancelled";
    default:
      return "The conversation was compacted";
  }
}
