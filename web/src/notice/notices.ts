// Notices: errors and results, shown for a while at the edge of the page, with an action that helps.

import { createContext, use, useCallback } from "react";

import { RequestError } from "../socket/requests";

export interface Notice {
  readonly id: number;
  readonly tone: "good" | "bad";
  readonly text: string;
  readonly guidance: string;
  readonly action: { readonly label: string; readonly act: () => void } | null;
}

export type NewNotice = Pick<Notice, "tone" | "text"> & Partial<Pick<Notice, "guidance" | "action">>;

/** More than these would hide the page. */
const MAX_SHOWN = 3;

/** The same text again takes the place of the first: a button pressed five times says so once. */
export function addNotice(notices: readonly Notice[], id: number, notice: NewNotice): readonly Notice[] {
  const others = notices.filter((known) => known.text !== notice.text);
  return [...others, { guidance: "", action: null, ...notice, id }].slice(-MAX_SHOWN);
}

/** `what` begins the sentence: "The session was not renamed". */
export function noticeOf(problem: unknown, what: string): NewNotice {
  if (problem instanceof RequestError) {
    return { tone: "bad", text: `${what}: ${problem.body.message}`, guidance: problem.body.guidance };
  }
  return { tone: "bad", text: `${what}: ${String(problem)}` };
}

export type Notify = (notice: NewNotice) => void;
export const NotifyContext = createContext<Notify>(() => undefined);

export function useNotify(): Notify {
  return use(NotifyContext);
}

/** Returns a function that awaits a promise; if it fails, it shows a notice and returns null. */
export function useAttempt(): <T>(promise: Promise<T>, what: string) => Promise<T | null> {
  const notify = useNotify();
  return useCallback(
    async (promise, what) => {
      try {
        return await promise;
      } catch (error) {
        notify(noticeOf(error, what));
        return null;
      }
    },
    [notify],
  );
}
