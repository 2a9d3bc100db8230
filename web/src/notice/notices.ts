// Notices: what went wrong or was done, said for a while at the edge of the page, with the action that helps.

import { createContext, use } from "react";

import { Refused } from "../socket/control";

export interface Notice {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly text: string;
  readonly guidance: string;
  readonly action: { readonly label: string; readonly act: () => void } | null;
}

export type NewNotice = Pick<Notice, "tone" | "text"> & Partial<Pick<Notice, "guidance" | "action">>;

/** More than these would hide the page. */
const SHOWN = 3;

/** The same text again takes the place of the first: a button pressed five times says so once. */
export function added(notices: readonly Notice[], id: number, notice: NewNotice): readonly Notice[] {
  const others = notices.filter((known) => known.text !== notice.text);
  return [...others, { guidance: "", action: null, ...notice, id }].slice(-SHOWN);
}

/** `what` begins the sentence: "The session was not renamed". */
export function noticeOf(problem: unknown, what: string): NewNotice {
  if (problem instanceof Refused) {
    return { tone: "bad", text: `${what}: ${problem.body.message}`, guidance: problem.body.guidance };
  }
  return { tone: "bad", text: `${what}: ${String(problem)}` };
}

export type Notify = (notice: NewNotice) => void;
export const NotifyContext = createContext<Notify>(() => undefined);

export function useNotify(): Notify {
  return use(NotifyContext);
}

/** Awaits it and gives its result; where it fails, tells the person and gives null. */
export function useAttempt(): <T>(deed: Promise<T>, what: string) => Promise<T | null> {
  const notify = useNotify();
  return async (deed, what) => {
    try {
      return await deed;
    } catch (problem) {
      notify(noticeOf(problem, what));
      return null;
    }
  };
}
