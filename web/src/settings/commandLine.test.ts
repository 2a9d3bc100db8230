import { expect, test } from "vitest";

import { argumentsOf, commandLine, variablesOf } from "./commandLine";

test("an argument with a space or a quote is shown as one would have to type it", () => {
  expect(commandLine("npx", ["-y", "a b", "it's"])).toBe(`npx -y 'a b' 'it'\\''s'`);
});

test("each line is an argument, spaces and all", () => {
  expect(argumentsOf("--flag\n\na b\n")).toEqual(["--flag", "a b"]);
});

test("variables are read line by line, and a line that is none is named", () => {
  expect(variablesOf("A=1\n\nB=x=y\n")).toEqual({ env: { A: "1", B: "x=y" } });
  expect(variablesOf("A=1\nnonsense")).toEqual({ wrong: "nonsense" });
});
