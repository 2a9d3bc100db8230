// A form from a JSON Schema: its fields, and the validation of their values. Pure.

export interface FieldChoice {
  readonly value: string;
  readonly name: string;
}

interface Common {
  readonly name: string;
  readonly title: string;
  readonly description: string;
  readonly required: boolean;
}

export type Field =
  | (Common & {
      readonly kind: "text";
      readonly format: string;
      readonly shortest: number;
      readonly longest: number;
      readonly pattern: string | null;
    })
  | (Common & { readonly kind: "number"; readonly whole: boolean; readonly least: number; readonly most: number })
  | (Common & { readonly kind: "switch" })
  | (Common & { readonly kind: "choice"; readonly choices: readonly FieldChoice[] })
  | (Common & {
      readonly kind: "choices";
      readonly choices: readonly FieldChoice[];
      readonly least: number;
      readonly most: number;
    })
  | (Common & { readonly kind: "json" });

export type Value = string | boolean | readonly string[];
export type Values = Readonly<Record<string, Value>>;

type Schema = Readonly<Record<string, unknown>>;

export function fieldsOf(schema: unknown): readonly Field[] {
  const properties = objectOf(objectOf(schema).properties);
  const required = textsOf(objectOf(schema).required);
  return Object.entries(properties).map(([name, one]) => fieldOf(name, objectOf(one), required.includes(name)));
}

function fieldOf(name: string, schema: Schema, required: boolean): Field {
  const common = { name, title: textOf(schema.title) || name, description: textOf(schema.description), required };
  const choices = choicesOf(schema);
  if (choices.length > 0) return { ...common, kind: "choice", choices };
  switch (schema.type) {
    case "boolean":
      return { ...common, kind: "switch" };
    case "number":
    case "integer":
      return {
        ...common,
        kind: "number",
        whole: schema.type === "integer",
        least: numberOf(schema.minimum, -Infinity),
        most: numberOf(schema.maximum, Infinity),
      };
    case "array": {
      const several = choicesOf(objectOf(schema.items));
      if (several.length === 0) return { ...common, kind: "json" };
      const least = numberOf(schema.minItems, 0);
      return { ...common, kind: "choices", choices: several, least, most: numberOf(schema.maxItems, Infinity) };
    }
    case "string":
      return {
        ...common,
        kind: "text",
        format: textOf(schema.format),
        shortest: numberOf(schema.minLength, 0),
        longest: numberOf(schema.maxLength, Infinity),
        pattern: textOf(schema.pattern) || null,
      };
    default:
      return { ...common, kind: "json" };
  }
}

function choicesOf(schema: Schema): FieldChoice[] {
  const titled = Array.isArray(schema.oneOf) ? schema.oneOf : Array.isArray(schema.anyOf) ? schema.anyOf : [];
  const made = titled.map(objectOf).filter((one) => typeof one.const === "string");
  if (made.length > 0)
    return made.map((one) => ({ value: textOf(one.const), name: textOf(one.title) || textOf(one.const) }));
  const names = textsOf(schema.enumNames);
  return textsOf(schema.enum).map((value, index) => ({ value, name: names[index] ?? value }));
}

/** The initial values: the schema's defaults. */
export function initialValues(schema: unknown): Values {
  const properties = objectOf(objectOf(schema).properties);
  return Object.fromEntries(
    fieldsOf(schema).map((field) => [field.name, initial(field, objectOf(properties[field.name]).default)]),
  );
}

function initial(field: Field, given: unknown): Value {
  switch (field.kind) {
    case "switch":
      return given === true;
    case "choices":
      return textsOf(given);
    case "json":
      return given === undefined ? "" : JSON.stringify(given);
    default:
      return typeof given === "string" || typeof given === "number" ? String(given) : "";
  }
}

export type Filled =
  | { readonly ok: true; readonly content: Record<string, unknown> }
  | { readonly ok: false; readonly problems: Readonly<Record<string, string>> };

/** The content to send, or an error per field. Empty optional fields are left out. */
export function fill(fields: readonly Field[], values: Values): Filled {
  const content: Record<string, unknown> = {};
  const problems: Record<string, string> = {};
  for (const field of fields) {
    const read = readField(field, values[field.name] ?? "");
    if ("problem" in read) problems[field.name] = read.problem;
    else if (read.value !== undefined) content[field.name] = read.value;
  }
  return Object.keys(problems).length > 0 ? { ok: false, problems } : { ok: true, content };
}

type Read = { value: unknown } | { problem: string };

function readField(field: Field, value: Value): Read {
  if (field.kind === "switch") return { value: value === true };
  if (field.kind === "choices") return readChoices(field, Array.isArray(value) ? (value as readonly string[]) : []);
  const text = typeof value === "string" ? value : "";
  if (text.trim() === "") return field.required ? { problem: "Required" } : { value: undefined };
  switch (field.kind) {
    case "number":
      return readNumber(field, Number(text));
    case "choice":
      return field.choices.some((choice) => choice.value === text)
        ? { value: text }
        : { problem: "Choose one from the list" };
    case "text":
      return readText(field, text);
    case "json":
      return readJson(text);
  }
}

function readChoices(field: Extract<Field, { kind: "choices" }>, chosen: readonly string[]): Read {
  const least = Math.max(field.least, field.required ? 1 : 0);
  if (chosen.length < least) return { problem: `Choose at least ${least}` };
  if (chosen.length > field.most) return { problem: `Choose at most ${field.most}` };
  return { value: chosen.length > 0 ? chosen : undefined };
}

function readNumber({ whole, least, most }: Extract<Field, { kind: "number" }>, number: number): Read {
  if (!Number.isFinite(number)) return { problem: "Enter a number" };
  if (whole && !Number.isInteger(number)) return { problem: "Enter a whole number" };
  if (number < least) return { problem: `Must be ${least} or more` };
  if (number > most) return { problem: `Must be ${most} or less` };
  return { value: number };
}

const FORMATS: Readonly<Record<string, { fits: (text: string) => boolean; problem: string }>> = {
  email: { fits: (text) => /^[^\s@]+@[^\s@]+$/.test(text), problem: "Enter an e-mail address" },
  uri: { fits: (text) => URL.canParse(text), problem: "Enter an address such as https://example.com" },
  date: {
    fits: (text) => /^\d{4}-\d{2}-\d{2}$/.test(text) && !Number.isNaN(Date.parse(text)),
    problem: "Enter a date such as 2026-01-31",
  },
  "date-time": { fits: (text) => !Number.isNaN(Date.parse(text)), problem: "Enter a date and a time" },
};

function readText({ format, shortest, longest, pattern }: Extract<Field, { kind: "text" }>, text: string): Read {
  const length = [...text].length;
  if (length < shortest) return { problem: `At least ${shortest} characters` };
  if (length > longest) return { problem: `At most ${longest} characters (now ${length})` };
  if (pattern !== null && !matches(pattern, text)) return { problem: `Must match the pattern ${pattern}` };
  const known = FORMATS[format];
  if (known && !known.fits(text)) return { problem: known.problem };
  // The browser's field for a date and a time has no zone; the schema's format wants one.
  return { value: format === "date-time" ? new Date(text).toISOString() : text };
}

function matches(pattern: string, text: string): boolean {
  try {
    return new RegExp(pattern, "u").test(text);
  } catch {
    return true; // A pattern that cannot be read here is left to the agent to check.
  }
}

function readJson(text: string): Read {
  try {
    return { value: JSON.parse(text) as unknown };
  } catch {
    return { problem: 'Enter JSON such as ["a", "b"]' };
  }
}

function objectOf(value: unknown): Schema {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Schema) : {};
}

function textsOf(value: unknown): string[] {
  return Array.isArray(value) ? value.filter((one) => typeof one === "string") : [];
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function numberOf(value: unknown, otherwise: number): number {
  return typeof value === "number" ? value : otherwise;
}
