// The part of the connection that a conversation needs. The page's socket implements it; tests and the harness have
// their own.

import type { ResultOf, Stream } from "../protocol";
import type { RequestType, RequestFields } from "../socket/requests";
import type { Subscription } from "../socket/socket";

export interface Bridge {
  request<T extends RequestType>(type: T, fields: RequestFields<T>): Promise<ResultOf[T]>;
  /** Returns a function that ends the subscription. */
  subscribe(stream: Stream, id: string, subscription: Subscription): () => void;
}
