// The client: the page's one socket and store, and the hooks by which components reach them.

import { createContext, use, useCallback, useSyncExternalStore } from "react";

import type { Hello, ResultOf } from "../protocol";
import type { RequestType, RequestFields } from "../socket/requests";
import { Socket } from "../socket/socket";
import type { ConnectionState } from "../socket/socket";
import type { StoreState } from "./reduce";
import { Store, nextFrame } from "./store";

export interface Client {
  readonly socket: Socket;
  readonly store: Store;
}

export type SendRequest = <T extends RequestType>(type: T, fields: RequestFields<T>) => Promise<ResultOf[T]>;

export function newClient(): Client {
  const url = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/v1/socket`;
  const socket = new Socket(url, {
    open: (address) => new WebSocket(address),
    now: Date.now,
    random: Math.random,
    signedIn,
  });
  const store = new Store(socket, nextFrame);
  socket.connect();
  // Check at once when the network changed or someone looks: a phone that slept has lost its socket silently. Being
  // offline does not mean that a server on the same machine is gone.
  addEventListener("online", socket.check);
  addEventListener("offline", socket.check);
  addEventListener("visibilitychange", () => {
    if (!document.hidden) socket.check();
  });
  return { socket, store };
}

async function signedIn(): Promise<boolean> {
  try {
    const answer = await fetch("/v1/sessions?limit=1", { credentials: "same-origin" });
    return answer.status !== 401 && answer.status !== 403;
  } catch {
    return true; // not reachable, which says nothing about the sign-in
  }
}

export const ClientContext = createContext<Client | null>(null);

export function useClient(): Client {
  const client = use(ClientContext);
  if (client === null) throw new Error("there is no client above this component");
  return client;
}

export function useStore<T>(part: (known: StoreState) => T): T {
  const { store } = useClient();
  return useSyncExternalStore(store.watch, () => part(store.current()));
}

export function useConnection(): ConnectionState {
  const { socket } = useClient();
  return useSyncExternalStore(socket.watch, socket.current);
}

/** The server's greeting; null while not connected. */
export function useHello(): Hello | null {
  const link = useConnection();
  return link.kind === "open" ? link.hello : null;
}

/** Returns a function that sends requests: `request("session.close", { session_id })`. */
export function useRequest(): SendRequest {
  const { socket } = useClient();
  return useCallback((type, fields) => socket.request(type, fields), [socket]);
}
