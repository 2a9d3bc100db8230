import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import type { Plugin, Rolldown } from "vite";
import { defineConfig } from "vitest/config";

// The folder from which the server serves the page. The build is moved there once it is complete.
const PAGE = resolve("../src/dragoman/bridge/page");

// The address of a running `dragoman serve`, for `npm run dev`.
const BRIDGE = process.env.DRAGOMAN_BRIDGE ?? "http://127.0.0.1:8421";

/** Writes a compressed copy of each text file beside it: the server only chooses. */
function compressed(): Plugin {
  return {
    name: "compressed",
    apply: "build",
    writeBundle({ dir = "" }, bundle) {
      for (const name of [...Object.keys(bundle), "index.html"].filter((file) => /\.(js|css|html|svg)$/.test(file))) {
        const text = readFileSync(join(dir, name));
        if (text.length < 1024) continue;
        writeFileSync(join(dir, `${name}.br`), brotliCompressSync(text));
        writeFileSync(join(dir, `${name}.gz`), gzipSync(text, { level: 9 }));
      }
    },
  };
}

/** Names the scripts of a session's view in the document, for public/early.js. */
function sessionScripts(): Plugin {
  return {
    name: "session-scripts",
    apply: "build",
    transformIndexHtml: {
      order: "post",
      handler(_, { bundle = {} }) {
        const chunks = Object.values(bundle).filter((file) => file.type === "chunk");
        const initial = scriptsOf(chunks.find((chunk) => chunk.isEntry)?.fileName, bundle);
        const view = scriptsOf(chunks.find((chunk) => chunk.name === "SessionView")?.fileName, bundle);
        const content = [...view].filter((name) => !initial.has(name)).map((name) => `/${name}`);
        return [
          { tag: "meta", attrs: { name: "session-scripts", content: content.join(" ") }, injectTo: "head-prepend" },
        ];
      },
    },
  };
}

/** A chunk and all that it imports statically. */
function scriptsOf(name: string | undefined, bundle: Rolldown.OutputBundle, names = new Set<string>()): Set<string> {
  const chunk = bundle[name ?? ""];
  if (chunk?.type !== "chunk" || names.has(chunk.fileName)) return names;
  names.add(chunk.fileName);
  for (const imported of chunk.imports) scriptsOf(imported, bundle, names);
  return names;
}

/** Drops the older formats of fonts: every browser that can run the page reads the first one. */
function oneFormat(): Plugin {
  return {
    name: "one-format",
    apply: "build",
    generateBundle(_, bundle) {
      for (const name of Object.keys(bundle)) if (/\.(ttf|woff)$/.test(name)) delete bundle[name];
    },
  };
}

/** Packages whose archives have no licence file: the copyright as their repositories state it. All are under MIT. */
const COPYRIGHTS: Readonly<Record<string, string>> = {
  "@xterm/headless": [
    "Copyright (c) 2017-2019, The xterm.js authors (https://github.com/xtermjs/xterm.js)",
    "Copyright (c) 2014-2016, SourceLair Private Company (https://www.sourcelair.com)",
    "Copyright (c) 2012-2013, Christopher Jeffrey (https://github.com/chjj/)",
  ].join("\n"),
  "react-remove-scroll-bar": "Copyright (c) 2025 Anton Korzunov <thekashey@gmail.com>",
};

/** Adds the licences of all packages that are part of the page: those who pass the page on have to pass them on, too. */
function licences(): Plugin {
  return {
    name: "licences",
    apply: "build",
    generateBundle(_, bundle) {
      const modules = Object.values(bundle).flatMap((file) => (file.type === "chunk" ? file.moduleIds : []));
      const folders = new Set(modules.map(packageFolder).filter((folder) => folder !== null));
      const source = [...folders]
        .sort()
        .map(licenceOf)
        .join(`\n${"-".repeat(80)}\n\n`);
      this.emitFile({ type: "asset", fileName: "licences.txt", source });
    },
  };
}

/** The folder of the package that a module belongs to; null for a module of the page itself. */
function packageFolder(module: string): string | null {
  return /^.*\/node_modules\/(?:@[^/]+\/)?[^/]+(?=\/)/.exec(module.replace(/^\0/, ""))?.[0] ?? null;
}

function licenceOf(folder: string): string {
  const { name, version, license } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  const file = readdirSync(folder).find((entry) => /^licen[cs]e(\.|$)/i.test(entry));
  const text = file ? readFileSync(join(folder, file), "utf8") : withCopyright(name, license);
  return `${name} ${version}, ${license}\n\n${text.trim()}\n`;
}

function withCopyright(name: string, license: string): string {
  const copyright = COPYRIGHTS[name];
  if (copyright === undefined || license !== "MIT") throw new Error(`${name} has no licence file: see COPYRIGHTS`);
  const terms = /Permission is hereby granted.*/s.exec(readFileSync("node_modules/react/LICENSE", "utf8"))?.[0];
  if (terms === undefined) throw new Error("React is no longer under MIT: its terms were used for other packages");
  return `${copyright}\n\n${terms}`;
}

/** Moves the page to its folder once the build is complete. */
function inPlace(): Plugin {
  return {
    name: "in-place",
    apply: "build",
    writeBundle: {
      order: "post",
      sequential: true,
      handler({ dir = "" }) {
        const old = `${dir}-old`;
        rmSync(old, { recursive: true, force: true });
        if (existsSync(PAGE)) renameSync(PAGE, old);
        renameSync(dir, PAGE);
        rmSync(old, { recursive: true, force: true });
      },
    },
  };
}

export default defineConfig({
  plugins: [react(), sessionScripts(), oneFormat(), licences(), compressed(), inPlace()],
  build: {
    outDir: "node_modules/.page",
    emptyOutDir: true,
    // The server's policy allows data: addresses for images only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
  },
  // The server accepts requests of its own pages only, so the proxy changes the origin.
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": { target: BRIDGE, ws: true, changeOrigin: true, rewriteWsOrigin: true } },
  },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
