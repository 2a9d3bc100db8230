// What of the connection the conversation needs. The page's socket is one; tests and the harness make their own.

import type { ResultOf, Stream } from "../protocol";
import type { RequestType, RequestFields } from "../socket/requests";
import type { Subscription } from "../socket/socket";

export interface Bridge {
  request<T extends RequestType>(type: T, fields: RequestFields<T>): Promise<ResultOf[T]>;
  /** Returns what ends it. */
  subscribe(stream: Stream, id: string, subscription: Subscription): () => void;
}
