// Shows the schema as a page. Everything is put in as text, never as markup.

/** @returns {HTMLElement} */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Words between backquotes are code. */
function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? make("code", {}, part) : part));
}

let schemas = {};

/** What a value may be, in a few words; types of the schema are links. */
function kind(schema) {
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [make("a", { href: `#type-${name}` }, name)];
  }
  if (schema.const !== undefined) return [JSON.stringify(schema.const)];
  if (schema.enum) return [schema.enum.map((one) => JSON.stringify(one)).join(" or ")];
  const several = schema.anyOf ?? schema.oneOf;
  if (several) return several.flatMap((one, index) => (index ? [" or ", ...kind(one)] : kind(one)));
  if (schema.type === "array") {
    const items = schema.items || schema.prefixItems?.[0];
    return items ? ["array of ", ...kind(items)] : ["array"];
  }
  return [[schema.type ?? "anything"].flat().join(" or ")];
}

function fields(rows) {
  const table = make("table", {}, make("tr", {}, make("th", {}, "name"), make("th", {}, "what it is"), make("th", {}, "")));
  for (const { name, schema, note, required } of rows) {
    const left = schema.default === undefined ? "" : `default: ${JSON.stringify(schema.default)}`;
    const about = [required ? "required" : left, note ?? ""].filter(Boolean).join(". ");
    table.append(
      make("tr", {}, make("td", {}, make("code", {}, name)), make("td", {}, ...kind(schema)), make("td", { class: "soft" }, ...prose(about))),
    );
  }
  return make("div", { class: "wide" }, table);
}

function properties(schema) {
  const required = new Set(schema.required ?? []);
  return Object.entries(schema.properties ?? {}).map(([name, one]) => ({ name, schema: one, required: required.has(name) }));
}

function operation(method, path, entry) {
  const inside = make("div");
  if (entry.description) inside.append(make("p", {}, ...prose(entry.description)));
  if (entry.security?.length === 0) inside.append(make("p", { class: "soft" }, "Needs no token."));
  if (entry.parameters?.length) {
    inside.append(
      fields(entry.parameters.map((one) => ({ name: `${one.name} (${one.in})`, schema: one.schema, note: one.description, required: one.required }))),
    );
  }
  const body = entry.requestBody?.content["application/json"].schema;
  if (body?.properties && Object.keys(body.properties).length) inside.append(make("p", {}, "The body:"), fields(properties(body)));
  else if (body) inside.append(make("p", {}, "The body: ", ...kind(body)));
  for (const [status, answer] of Object.entries(entry.responses)) {
    const line = make("p", {}, make("code", {}, status), ` ${answer.description}: `);
    Object.entries(answer.content ?? {}).forEach(([type, { schema }], index) => {
      line.append(index ? ", or " : "", ...(type === "application/json" ? kind(schema) : [type]));
    });
    inside.append(line);
  }
  return make(
    "details",
    {},
    make("summary", {}, make("span", { class: "method" }, method.toUpperCase()), make("code", {}, path), make("span", { class: "soft" }, entry.summary)),
    inside,
  );
}

function type(name, schema) {
  const inside = make("div");
  if (schema.description) inside.append(make("p", {}, ...prose(schema.description)));
  inside.append(schema.properties ? fields(properties(schema)) : make("p", {}, ...kind(schema)));
  return make("details", { id: `type-${name}` }, make("summary", {}, make("code", {}, name)), inside);
}

function open() {
  const wanted = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (wanted instanceof HTMLDetailsElement) {
    wanted.open = true;
    wanted.scrollIntoView();
  }
}

async function show() {
  const answer = await fetch("/v1/openapi.json");
  const schema = await answer.json();
  schemas = schema.components.schemas;
  document.getElementById("about").append(...schema.info.description.split("\n\n").map((part) => make("p", {}, ...prose(part))));
  const paths = document.getElementById("paths");
  paths.replaceChildren(make("h2", {}, "Requests"));
  for (const [path, methods] of Object.entries(schema.paths)) {
    for (const [method, entry] of Object.entries(methods)) paths.append(operation(method, path, entry));
  }
  paths.append(make("h2", {}, "Types"));
  for (const [name, one] of Object.entries(schemas)) paths.append(type(name, one));
  window.addEventListener("hashchange", open);
  open();
}

show();
