import { useState } from "react";

import type { Row } from "../protocol";
import type { Bridge } from "./bridge";

interface Props<T extends Row> {
  bridge: Bridge;
  sessionId: string;
  row: T;
  /** Called with the row in full; with a long message, as far as it is loaded now. */
  onWhole: (row: T) => void;
}

/** Asks for the rest of a row that was sent in part, because it is long. */
export function ShowWhole<T extends Row>({ bridge, sessionId, row, onWhole }: Props<T>) {
  const [loading, setLoading] = useState(false);
  const [problem, setProblem] = useState("");
  const ask = async () => {
    setLoading(true);
    setProblem("");
    try {
      const offset = row.table === "messages" ? countCharacters(row.text) : 0;
      const answer = await bridge.request("session.row", {
        session_id: sessionId,
        table: row.table,
        row_id: row.id,
        offset,
      });
      const whole = answer.row;
      // The server answers with a row of the table that it was asked for.
      onWhole((row.table === "messages" && "text" in whole ? { ...whole, text: row.text + whole.text } : whole) as T);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
    setLoading(false);
  };
  return (
    <>
      <button type="button" className="small-button" disabled={loading} onClick={() => void ask()}>
        {row.table === "messages" ? "Truncated: show more" : "Truncated: show all"}
      </button>
      {problem && (
        <p className="bad" role="alert">
          {problem}
        </p>
      )}
    </>
  );
}

/** The length of a text as the server counts it: a character may be two units of a string here. */
export function countCharacters(text: string): number {
  let count = text.length;
  for (let at = 0; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    if (unit >= 0xd800 && unit < 0xdc00) count--;
  }
  return count;
}
