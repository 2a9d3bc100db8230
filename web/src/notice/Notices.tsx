import { useCallback, useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";

import { Button, IconButton } from "../ui/Button";
import { NotifyContext, addNotice } from "./notices";
import type { NewNotice, Notice } from "./notices";
import "./notice.css";

const DISMISS_AFTER_MS = 5_000; // ms; errors stay until they are dismissed

export function Notices({ children }: { children: ReactNode }) {
  const [notices, setNotices] = useState<readonly Notice[]>([]);
  const last = useRef(0);
  const notify = useCallback((notice: NewNotice) => {
    const id = ++last.current;
    setNotices((known) => addNotice(known, id, notice));
  }, []);
  const drop = useCallback((id: number) => setNotices((known) => known.filter((notice) => notice.id !== id)), []);
  return (
    <NotifyContext value={notify}>
      {children}
      <section className="notices" aria-label="Notices">
        {notices.map((notice) => (
          <NoticeView key={notice.id} notice={notice} onDrop={drop} />
        ))}
      </section>
    </NotifyContext>
  );
}

function NoticeView({ notice, onDrop }: { notice: Notice; onDrop: (id: number) => void }) {
  useEffect(() => {
    if (notice.tone === "bad") return;
    const timer = setTimeout(() => onDrop(notice.id), DISMISS_AFTER_MS);
    return () => clearTimeout(timer);
  }, [notice, onDrop]);
  const { action } = notice;
  return (
    <div className={`notice ${notice.tone}`} role={notice.tone === "bad" ? "alert" : "status"}>
      <div>
        <p>{notice.text}</p>
        {notice.guidance !== "" && <p className="hint">{notice.guidance}</p>}
        {action !== null && (
          <Button
            onClick={() => {
              onDrop(notice.id);
              action.act();
            }}
          >
            {action.label}
          </Button>
        )}
      </div>
      <IconButton icon="close" label="Dismiss" onClick={() => onDrop(notice.id)} />
    </div>
  );
}
