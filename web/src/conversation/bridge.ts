// What of the connection the conversation needs. The page's socket is one; tests and the harness make their own.

import type { ResultOf, Stream } from "../protocol";
import type { ControlType, Fields } from "../socket/control";
import type { Subscription } from "../socket/socket";

export interface Bridge {
  control<T extends ControlType>(type: T, fields: Fields<T>): Promise<ResultOf[T]>;
  /** Returns what ends it. */
  subscribe(stream: Stream, id: string, subscription: Subscription): () => void;
}
