import { useEffect, useState } from "react";

import type { Frame, SessionItem } from "../protocol";
import { navigate } from "../route";
import { useClient, useStore } from "../store/client";
import { SelectField } from "../ui/Field";
import type { SelectOption } from "../ui/Select";
import { plural, sessionTitle } from "../ui/format";
import { FrameList } from "./FrameList";

const MAX_FRAMES = 5_000; // frames; bounds the memory of a long session

/** The frames between an agent and Dragoman. */
export function Diagnostics({ session }: { session: string | null }) {
  const sessions = useStore((known) => known.list)?.sessions ?? [];
  return (
    <section aria-label="Diagnostics" className="diagnostics">
      <SelectField
        label="Session"
        hint="The frames that Dragoman and the agent exchanged, oldest first. Secrets that Dragoman sends are left out."
        value={session ?? ""}
        placeholder="Select a session"
        options={optionsOf(sessions, session)}
        onValueChange={(id) => navigate({ view: "settings", tab: "diagnostics", session: id }, "replace")}
      />
      {session !== null && <Frames key={session} session={session} />}
    </section>
  );
}

/** The sessions of the list, and the selected one even if it is not among them. */
function optionsOf(sessions: readonly SessionItem[], selected: string | null): SelectOption[] {
  const options = sessions.map((item) => ({ value: item.id, label: `${sessionTitle(item)} (${item.agent})` }));
  if (selected === null || options.some(({ value }) => value === selected)) return options;
  return [{ value: selected, label: selected }, ...options];
}

function Frames({ session }: { session: string }) {
  const { socket } = useClient();
  const [frames, setFrames] = useState<readonly Frame[] | null>(null);
  const [ended, setEnded] = useState<string | null>(null);
  useEffect(
    () =>
      socket.subscribe("session", session, {
        frames: true,
        onMessage: (message) => {
          if (message.type === "ended") setEnded(message.reason);
          else if ("frames" in message) setFrames((known) => joined(known ?? [], message.frames));
        },
      }),
    [socket, session],
  );
  if (ended !== null) return <p className="bad">{ended}</p>;
  if (frames === null) return <p className="hint">Loading…</p>;
  return (
    <>
      <p className="hint" role="status">
        {plural(frames.length, "frame")}
        {frames.length === MAX_FRAMES && ", the latest"}
      </p>
      <FrameList frames={frames} />
    </>
  );
}

/** Frames that were in transit when the view was closed and opened again may come twice. */
function joined(known: readonly Frame[], more: readonly Frame[]): readonly Frame[] {
  const cursors = new Set(known.map((frame) => frame.cursor));
  return [...known, ...more.filter((frame) => !cursors.has(frame.cursor))].slice(-MAX_FRAMES);
}
