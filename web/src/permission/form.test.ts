import { expect, test } from "vitest";

import { fieldsOf, fill, initialValues, type Values } from "./form";

const filled = (properties: Record<string, unknown>, values: Values, required: string[] = []) =>
  fill(fieldsOf({ type: "object", properties, required }), values);

test("each kind of schema has its field", () => {
  const fields = fieldsOf({
    required: ["a"],
    properties: {
      a: { type: "string", title: "A", format: "email" },
      b: { type: "integer" },
      c: { type: "boolean" },
      d: { enum: ["x", "y"], enumNames: ["Ex", "Why"] },
      e: { type: "string", oneOf: [{ const: "x", title: "Ex" }] },
      f: { type: "array", items: { anyOf: [{ const: "x", title: "Ex" }] } },
      g: { type: "object" },
    },
  });
  expect(fields.map((field) => field.kind)).toEqual([
    "text",
    "number",
    "switch",
    "choice",
    "choice",
    "choices",
    "json",
  ]);
  expect(fields[0]).toMatchObject({ title: "A", required: true });
  expect(fields[3]).toMatchObject({
    choices: [
      { value: "x", name: "Ex" },
      { value: "y", name: "Why" },
    ],
  });
});

test("defaults stand in the fields at first", () => {
  const properties = {
    a: { type: "string", default: "x" },
    b: { type: "integer", default: 2 },
    c: { type: "boolean", default: true },
    d: { type: "array", items: { enum: ["p"] }, default: ["p"] },
  };
  expect(initialValues({ properties })).toEqual({ a: "x", b: "2", c: true, d: ["p"] });
});

test("what was filled in is sent in its own type, and what is empty is left out", () => {
  const properties = {
    a: { type: "string" },
    b: { type: "integer" },
    c: { type: "boolean" },
    d: { type: "array", items: { enum: ["p", "q"] } },
    e: { type: "number" },
  };
  expect(filled(properties, { a: "x", b: "2", c: false, d: ["q"], e: "" })).toEqual({
    ok: true,
    content: { a: "x", b: 2, c: false, d: ["q"] },
  });
});

test.each([
  [{ type: "string" }, "", "Required"],
  [{ type: "string", minLength: 3 }, "ab", "At least 3 characters"],
  [{ type: "string", maxLength: 3 }, "abcd", "At most 3 characters (now 4)"],
  [{ type: "string", pattern: "^\\d+$" }, "x", "Must match the pattern ^\\d+$"],
  [{ type: "string", format: "email" }, "x", "Enter an e-mail address"],
  [{ type: "string", format: "uri" }, "x", "Enter an address such as https://example.com"],
  [{ type: "string", format: "date" }, "31.1.2026", "Enter a date such as 2026-01-31"],
  [{ type: "integer" }, "1.5", "Enter a whole number"],
  [{ type: "number" }, "x", "Enter a number"],
  [{ type: "integer", minimum: 1 }, "0", "Must be 1 or more"],
  [{ type: "integer", maximum: 8 }, "9", "Must be 8 or less"],
  [{ enum: ["a"] }, "b", "Choose one from the list"],
  [{ type: "array", items: { enum: ["a", "b"] }, minItems: 2 }, ["a"], "Choose at least 2"],
])("%j refuses %j", (schema, value, problem) => {
  expect(filled({ it: schema }, { it: value }, ["it"])).toEqual({ ok: false, problems: { it: problem } });
});

test("a schema that is none has no fields, and a pattern that is none refuses nothing", () => {
  expect(fieldsOf(null)).toEqual([]);
  expect(filled({ a: { type: "string", pattern: "(" } }, { a: "x" })).toEqual({ ok: true, content: { a: "x" } });
});
