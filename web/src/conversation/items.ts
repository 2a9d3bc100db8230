// The items of the list: flat, each with a stable key. Pure except for the cache.

import { splitIntoPieces, type Pieces } from "../markdown/pieces";
import type { Message, Notice, Permission, SessionFailure, Question, Run } from "../protocol";
import type { Step } from "./steps";
import type { Entry, Segment } from "./timeline";

export type Item =
  | { readonly kind: "user"; readonly key: string; readonly message: Message; readonly open: boolean }
  | {
      readonly kind: "text";
      readonly key: string;
      /** Of the last piece alone: the others stay as they are, and would hold on to all that the message ever was. */
      readonly message: Message | null;
      readonly text: string;
      readonly first: boolean;
      readonly streaming: boolean;
    }
  | {
      readonly kind: "thought";
      readonly key: string;
      readonly message: Message;
      readonly seconds: number | null;
      readonly streaming: boolean;
      readonly open: boolean;
    }
  | {
      readonly kind: "step";
      readonly key: string;
      readonly step: Step;
      readonly depth: number;
      readonly open: boolean;
      readonly cut: boolean;
    }
  | { readonly kind: "group"; readonly key: string; readonly steps: readonly Step[]; readonly open: boolean }
  | { readonly kind: "permission"; readonly key: string; readonly permission: Permission; readonly keys: boolean }
  | { readonly kind: "question"; readonly key: string; readonly question: Question }
  | { readonly kind: "notice"; readonly key: string; readonly notice: Notice; readonly open: boolean }
  /** `problem`: the agent's current error; only the last run shows it. */
  | {
      readonly kind: "end";
      readonly key: string;
      readonly run: Run;
      readonly segment: Segment;
      readonly problem: SessionFailure | null;
    };

export type ExpandableItem = Extract<Item, { readonly open: boolean }>;

/** What the reader expanded (true) or collapsed (false), by key; other items have their default. */
export type OpenState = ReadonlyMap<string, boolean>;

/** Builds the items and remembers them: an item that did not change is the same object. */
export class ItemBuilder {
  private known: ReadonlyMap<string, Item> = new Map();
  private pieces: ReadonlyMap<string, Pieces> = new Map();
  private cut = new Map<string, Pieces>();

  of(segments: readonly Segment[], opened: OpenState, problem: SessionFailure | null): readonly Item[] {
    this.cut = new Map();
    const last = segments.findLast(({ run }) => run !== null);
    const made = segments.flatMap((segment) => this.segment(segment, opened, segment === last ? problem : null));
    // The number keys answer the first that waits.
    const first = made.findIndex((item) => item.kind === "permission" && item.permission.outcome === "pending");
    const items = made.map((item, at) =>
      this.reuse(at === first && item.kind === "permission" ? { ...item, keys: true } : item),
    );
    this.known = new Map(items.map((item) => [item.key, item]));
    this.pieces = this.cut; // drops the pieces of messages that are gone
    return items;
  }

  private segment(segment: Segment, opened: OpenState, problem: SessionFailure | null): Item[] {
    const { run, entries } = segment;
    const going = run?.status === "running";
    const items = entries.flatMap((entry, at) => this.entry(entry, opened, going, going && at === entries.length - 1));
    if (run && !going) items.push({ kind: "end", key: `end-${run.id}`, run, segment, problem });
    return items;
  }

  private entry(entry: Entry, opened: OpenState, going: boolean, last: boolean): Item[] {
    switch (entry.kind) {
      case "message":
        return this.message(entry.message, entry.seconds, opened, last && !entry.message.ended);
      case "step":
        return stepItems(entry.step, opened, 0, going);
      case "group": {
        const key = `group-${entry.steps[0]?.key ?? ""}`;
        const open = opened.get(key) ?? false;
        const inside = open ? entry.steps.flatMap((step) => stepItems(step, opened, 1, going)) : [];
        return [{ kind: "group", key, steps: entry.steps, open }, ...inside];
      }
      case "permission":
        return [{ kind: "permission", key: entry.permission.id, permission: entry.permission, keys: false }];
      case "question":
        return [{ kind: "question", key: entry.question.id, question: entry.question }];
      case "notice": {
        const key = entry.notice.id;
        return [{ kind: "notice", key, notice: entry.notice, open: opened.get(key) ?? false }];
      }
    }
  }

  private message(message: Message, seconds: number | null, opened: OpenState, streaming: boolean): Item[] {
    const key = message.id;
    const open = opened.get(key) ?? false;
    if (message.kind === "user") return [{ kind: "user", key, message, open }];
    if (message.kind === "thought") return [{ kind: "thought", key, message, seconds, streaming, open }];
    const pieces = splitIntoPieces(message.text, this.pieces.get(key));
    this.cut.set(key, pieces);
    const end = pieces.texts.length - 1;
    return pieces.texts.map((text, at) => ({
      kind: "text",
      key: at === 0 ? key : `${key}/${at}`,
      message: at === end ? message : null,
      text,
      first: at === 0,
      streaming: streaming && at === end,
    }));
  }

  private reuse(item: Item): Item {
    const known = this.known.get(item.key);
    return known !== undefined && isSameItem(known, item) ? known : item;
  }
}

/** A step and, if it is expanded, its children. */
function stepItems(step: Step, opened: OpenState, depth: number, going: boolean): Item[] {
  // A completed edit is expanded at first: its changes are what people look for.
  const open = opened.get(step.key) ?? (step.diffs.length > 0 && step.state === "done");
  const cut = !going && (step.state === "running" || step.state === "waiting");
  const below = open ? step.children.flatMap((child) => stepItems(child, opened, depth + 1, going)) : [];
  return [{ kind: "step", key: step.key, step, depth, open, cut }, ...below];
}

/** True if both would look the same. */
function isSameItem(one: Item, other: Item): boolean {
  if (one.kind === "group" && other.kind === "group") {
    return (
      one.open === other.open &&
      one.steps.length === other.steps.length &&
      one.steps.every((step, at) => step === other.steps[at])
    );
  }
  return (Object.keys(other) as (keyof Item)[]).every((field) => one[field] === other[field]);
}
