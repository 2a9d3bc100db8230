import { CSPProvider } from "@base-ui/react/csp-provider";
import { Suspense, useEffect, useRef, useState } from "react";
import type { ReactNode } from "react";

import { Sidebar } from "./list/Sidebar";
import { ConnectionBanner } from "./notice/ConnectionBanner";
import { Notices } from "./notice/Notices";
import type { PaletteItem } from "./palette/commands";
import { Palette } from "./palette/Palette";
import { ViewCommandsContext } from "./palette/viewCommands";
import { Shortcuts } from "./palette/Shortcuts";
import { useShortcuts } from "./palette/useShortcuts";
import { ScopeContext } from "./permission/scope";
import "./styles/views";
import { PhoneTabs } from "./phone/PhoneTabs";
import { useIsPhone } from "./phone/mediaQueries";
import type { Scope } from "./protocol";
import { completeId, formatRoute, navigate, useRoute } from "./route";
import type { Route } from "./route";
import { FirstStart } from "./start/FirstStart";
import { NewSession } from "./start/NewSession";
import { useClient, useHello, useStore } from "./store/client";
import { Boundary } from "./ui/Boundary";
import { lazyComponent, whenIdle } from "./ui/lazyComponent";
import { useTitle } from "./useTitle";
import "./styles/app.css";

// Not needed for the first paint of the page. A session's address loads its view at once; the rest follows when idle.
// The palette is not among them: keys that follow Ctrl+K at once are meant for it.
const SessionView = lazyComponent(async () => (await import("./session/SessionView")).SessionView);
const Tray = lazyComponent(async () => (await import("./tray/Tray")).Tray);
const Settings = lazyComponent(async () => (await import("./settings/Settings")).Settings);

const PRELOAD_DELAY_MS = 2_000; // so that it does not compete with the view that is opened first

function preload(): void {
  for (const component of [SessionView, Tray, Settings]) {
    component.preload().catch(() => undefined); // it is tried again when it is shown
  }
}

export function App() {
  const offered = useRef<readonly PaletteItem[]>([]);
  return (
    // The server's policy allows no style elements.
    <CSPProvider disableStyleElements>
      <Notices>
        <ViewCommandsContext value={offered}>
          <ScopeContext value={useScope()}>
            <Shell />
          </ScopeContext>
        </ViewCommandsContext>
      </Notices>
    </CSPProvider>
  );
}

/** The scope of this browser's token. It is kept while the server cannot be reached. */
function useScope(): Scope {
  const granted = useHello()?.scope;
  const [scope, setScope] = useState<Scope>("admin");
  if (granted !== undefined && granted !== scope) setScope(granted);
  return granted ?? scope;
}

function Shell() {
  const route = useRoute();
  const phone = useIsPhone();
  const [overlay, setOverlay] = useState<"palette" | "shortcuts" | null>(null);
  const searchField = useRef<HTMLInputElement>(null);
  const close = () => setOverlay(null);
  const search = () => {
    // On a phone the field is not there until the list is.
    if (searchField.current?.offsetParent === null) navigate({ view: "home" });
    requestAnimationFrame(() => searchField.current?.focus());
  };
  useTitle();
  useNeedsFirst(route);
  const isReady = useStore((known) => known.list !== null);
  useEffect(() => {
    if (!isReady) return;
    const timer = setTimeout(() => whenIdle(preload), PRELOAD_DELAY_MS);
    return () => clearTimeout(timer);
  }, [isReady]);
  useShortcuts({
    "mod+k": () => setOverlay(overlay === "palette" ? null : "palette"),
    "/": search,
    "?": () => setOverlay("shortcuts"),
    n: () => navigate({ view: "new" }),
    a: () => navigate({ view: "needs" }),
  });
  const first = useStore((known) => known.list?.sessions.length === 0);
  return (
    <div className="app" data-view={route.view} data-first={first || undefined}>
      <a className="skip" href="#main">
        Skip to main content
      </a>
      <ConnectionBanner />
      <div className="panes">
        <Sidebar route={route} searchField={searchField} onPalette={() => setOverlay("palette")} />
        <main id="main" className="main" tabIndex={-1}>
          <Boundary place={formatRoute(route)}>
            <Suspense fallback={<p className="list-note">Loading…</p>}>
              <View route={route} />
            </Suspense>
          </Boundary>
        </main>
      </div>
      {phone && <PhoneTabs route={route} />}
      {overlay === "palette" && (
        <Palette onSearch={search} onShortcuts={() => setOverlay("shortcuts")} onClose={close} />
      )}
      {overlay === "shortcuts" && <Shortcuts onClose={close} />}
    </div>
  );
}

function View({ route }: { route: Route }): ReactNode {
  useFollow(route.view === "session" ? route.id : null);
  useWholeId(route);
  switch (route.view) {
    case "home":
      return <Home />;
    case "needs":
      return <Tray />;
    case "new":
      return <NewSession key={`${route.agent} ${route.cwd}`} {...route} />;
    case "session":
      return <SessionView id={route.id} anchor={route.anchor} beside={route.beside === true} />;
    case "settings":
      return <Settings {...route} />;
  }
}

/** Follows the session that is shown. Here, so that its rows are requested while its view is still loading. */
function useFollow(id: string | null): void {
  const { store } = useClient();
  useEffect(() => (id === null ? undefined : store.follow(id)), [store, id]);
}

/** Replaces the beginning of a session's id in the address by the whole id. */
function useWholeId(route: Route): void {
  const part = route.view === "session" ? route.id : null;
  const whole = useStore(({ list }) =>
    part === null || list === null
      ? null
      : completeId(
          part,
          list.sessions.map((session) => session.id),
        ),
  );
  useEffect(() => {
    if (whole !== null && route.view === "session") navigate({ ...route, id: whole }, "replace");
  }, [whole, route]);
}

function Home() {
  const list = useStore((known) => known.list);
  if (list === null) return <p className="list-note">Connecting…</p>;
  return <Start first={list.sessions.length === 0} />;
}

/** Keeps showing the welcome while imported sessions arrive, so that the import card does not disappear. */
function Start({ first }: { first: boolean }) {
  const [welcomed, setWelcomed] = useState(first);
  if (first && !welcomed) setWelcomed(true); // the last session was deleted, and the list says so only now
  return welcomed ? <FirstStart /> : <NewSession />;
}

/** Opens the page on the requests that need the user, if there are any. */
function useNeedsFirst(route: Route): void {
  const waiting = useStore((known) => known.waiting);
  const looked = useRef(false);
  useEffect(() => {
    if (waiting === null || looked.current) return;
    looked.current = true;
    if (waiting.length > 0 && route.view === "home") navigate({ view: "needs" }, "replace");
  }, [waiting, route]);
}
