import { memo, useState } from "react";

import { Markdown } from "../markdown";
import type { Notice } from "../protocol";
import { useConversation } from "./context";
import type { Item } from "./items";
import { ShowWhole } from "./ShowWhole";

interface Props {
  item: Extract<Item, { kind: "notice" }>;
  onToggle: () => void;
}

/** A notice of the agent: one line, expandable if there is more text. */
export const NoticeView = memo(function NoticeView({ item, onToggle }: Props) {
  const { open } = item;
  const { bridge, sessionId } = useConversation();
  const [whole, setWhole] = useState<Notice | null>(null);
  const notice = whole ?? item.notice;
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
          {item.notice.shortened && whole === null && (
            <ShowWhole bridge={bridge} sessionId={sessionId} row={item.notice} onWhole={setWhole} />
          )}
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
