// The values of a form while it is filled in. The server reads the form from the agent's schema and checks the answer;
// here texts only become values of the field's type. Pure.

import type { Form, FormField } from "../protocol";

export type Value = string | boolean | readonly string[];
export type Values = Readonly<Record<string, Value>>;

/** The initial values: the agent's suggestions. */
export function initialValues(form: Form): Values {
  return Object.fromEntries(form.fields.map((field) => [field.name, initialValue(field)]));
}

function initialValue({ kind, default: suggestion }: FormField): Value {
  switch (kind) {
    case "boolean":
      return suggestion === true;
    case "choices":
      return Array.isArray(suggestion) ? (suggestion as readonly string[]) : [];
    default:
      return suggestion === null ? "" : String(suggestion);
  }
}

/** The content of an answer. Empty fields are left out. */
export function contentOf(form: Form, values: Values): Record<string, unknown> {
  const entries = form.fields.map((field) => [field.name, contentValue(field, values[field.name] ?? "")] as const);
  return Object.fromEntries(entries.filter(([, value]) => value !== undefined));
}

function contentValue(field: FormField, value: Value): unknown {
  if (typeof value !== "string") return typeof value === "boolean" || value.length > 0 ? value : undefined;
  const text = value.trim();
  if (text === "") return undefined;
  if (field.kind === "number") {
    const number = Number(text);
    return Number.isFinite(number) ? number : text; // the server's message names the text
  }
  // The browser's input for a date and a time has no zone; the format requires one.
  if (field.format === "date-time" && !Number.isNaN(Date.parse(text))) return new Date(text).toISOString();
  return value;
}
