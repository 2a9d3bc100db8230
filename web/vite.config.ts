import { existsSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";

import react from "@vitejs/plugin-react";
import type { Plugin } from "vite";
import { defineConfig } from "vitest/config";

// Where the server looks for the page. It is built beside, so that at no time there is half of one.
const PAGE = resolve("../src/dragoman/bridge/page");

// Where `dragoman serve` listens, for `npm run dev` beside it.
const BRIDGE = process.env.DRAGOMAN_BRIDGE ?? "http://127.0.0.1:8421";

/** Each text beside itself, compressed once and for all: the server only chooses. */
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

/** Fonts that come in three formats: every browser that can run the page takes the first. */
function oneFormat(): Plugin {
  return {
    name: "one-format",
    apply: "build",
    generateBundle(_, bundle) {
      for (const name of Object.keys(bundle)) if (/\.(ttf|woff)$/.test(name)) delete bundle[name];
    },
  };
}

/** Puts the page in its place, once all of it is there. */
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
  plugins: [react(), oneFormat(), compressed(), inPlace()],
  build: {
    outDir: "node_modules/.page",
    emptyOutDir: true,
    // The server allows data: for images alone, and nothing of ours is one that small.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    target: "es2023",
  },
  // The server takes requests of its own pages alone, so they go there as such.
  server: {
    host: "127.0.0.1",
    proxy: { "/v1": { target: BRIDGE, ws: true, changeOrigin: true, rewriteWsOrigin: true } },
  },
  test: { include: ["src/**/*.test.{ts,tsx}"] },
});
