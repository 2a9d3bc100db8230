import { StrictMode } from "react";
import { createRoot } from "react-dom/client";

import { App } from "./app";
import { ClientContext, newClient } from "./store/client";
import { followTheme } from "./theme";
import "./styles/tokens.css";
import "./styles/base.css";

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");

followTheme();
createRoot(root).render(
  <StrictMode>
    <ClientContext value={newClient()}>
      <App />
    </ClientContext>
  </StrictMode>,
);
