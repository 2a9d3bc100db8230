import { useState } from "react";

import type { Row } from "../protocol";
import type { Bridge } from "./bridge";

interface Props<T extends Row> {
  bridge: Bridge;
  sessionId: string;
  row: T;
  onWhole: (row: T) => void;
}

/** Asks for all of a row that was sent in part, because it is long. */
export function ShowWhole<T extends Row>({ bridge, sessionId, row, onWhole }: Props<T>) {
  const [problem, setProblem] = useState("");
  const ask = async () => {
    try {
      const whole = await bridge.request("session.row", { session_id: sessionId, table: row.table, row_id: row.id });
      // The server answers with a row of the table that it was asked for.
      onWhole(whole.row as T);
    } catch (error) {
      setProblem(error instanceof Error ? error.message : String(error));
    }
  };
  return (
    <>
      <button type="button" className="small-button" onClick={() => void ask()}>
        Truncated: show all
      </button>
      {problem && (
        <p className="bad" role="alert">
          {problem}
        </p>
      )}
    </>
  );
}
