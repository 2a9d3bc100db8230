import { expect, test } from "vitest";

import { formField } from "../dev/rowBuilder";
import type { FormField } from "../protocol";
import { contentOf, initialValues, type Value } from "./form";

const formOf = (...fields: FormField[]) => ({ fields, left_out: [], error: null });

test("the fields begin with the agent's suggestions", () => {
  const form = formOf(
    formField("text", "a", { default: "x" }),
    formField("number", "b", { default: 2 }),
    formField("boolean", "c", { default: true }),
    formField("choices", "d", { default: ["p"] }),
    formField("choice", "e"),
    formField("boolean", "f"),
    formField("choices", "g"),
  );
  expect(initialValues(form)).toEqual({ a: "x", b: "2", c: true, d: ["p"], e: "", f: false, g: [] });
});

test("values are sent in the type of their field, and empty ones are left out", () => {
  const form = formOf(
    formField("text", "a"),
    formField("number", "b"),
    formField("boolean", "c"),
    formField("choices", "d"),
    formField("number", "e"),
    formField("choices", "f"),
    formField("text", "g"),
  );
  const values = { a: " x ", b: " 2", c: false, d: ["q"], e: "", f: [], g: " " };
  expect(contentOf(form, values)).toEqual({ a: " x ", b: 2, c: false, d: ["q"] });
});

test.each<[FormField, Value, unknown]>([
  [formField("number", "it"), "1.5", 1.5],
  [formField("number", "it"), "many", "many"],
  [formField("number", "it"), "Infinity", "Infinity"],
  [formField("text", "it", { format: "date-time" }), "2026-01-31T10:30Z", "2026-01-31T10:30:00.000Z"],
  [formField("text", "it", { format: "date-time" }), "soon", "soon"],
  [formField("text", "it", { format: "date" }), "31.1.2026", "31.1.2026"],
])("a value that does not fit is left to the server: %#", (field, value, sent) => {
  expect(contentOf(formOf(field), { it: value })).toEqual({ it: sent });
});
