// Markdown as nodes of the page. Nothing that an agent writes becomes HTML: tags in its text are shown as text.

import type { Token, Tokens } from "marked";
import { createContext, Fragment, memo, useContext, useMemo, useState, type ReactNode } from "react";

import { Boundary } from "../ui/Boundary";
import { CodeBlock } from "./CodeBlock";
import { decodeEntities } from "./entities";
import { asWritten, parse, type AsWrittenToken, type MathToken } from "./grammar";
import { picture, target } from "./links";
import { MathView } from "./MathView";
import { closeOpenMarks } from "./closeOpenMarks";
import "./markdown.css";

export type OpenFile = (path: string, line: number | null) => void;

/** Opens a file of the workspace that a text links to. */
export const OpenFileContext = createContext<OpenFile | null>(null);

/** Rows of a table and items of a list that are rendered before someone asks for the rest. */
const MAX_SHOWN = 150;

/** A longer text is shown as it is written; those that are expected to be longer are split into pieces first. */
const MAX_CHARS = 100_000;

export const Markdown = memo(function Markdown({ text, streaming = false }: { text: string; streaming?: boolean }) {
  const tokens = useMemo(() => {
    if (text.length > MAX_CHARS) return [asWritten(text)];
    return parse(streaming ? closeOpenMarks(text) : text);
  }, [text, streaming]);
  const last = tokens.length - 1;
  return (
    <div className="markdown">
      <Boundary place={text} fallback={<AsWritten text={text} />}>
        {tokens.map((token, index) => (
          <BlockView key={index} token={token} open={streaming && index === last} />
        ))}
      </Boundary>
    </div>
  );
});

function AsWritten({ text }: { text: string }) {
  return <p className="as-written">{text}</p>;
}

function BlockView({ token: any, open }: { token: Token; open: boolean }): ReactNode {
  const token = any as KnownToken;
  switch (token.type) {
    case "space":
    case "def":
      return null;
    case "code":
      return <CodeBlock code={token.text} language={languageOf(token.lang)} closed={!open} />;
    case "heading":
      return <Heading depth={token.depth}>{inline(token.tokens)}</Heading>;
    case "hr":
      return <hr />;
    case "blockquote":
      return <blockquote>{blocks(token.tokens)}</blockquote>;
    case "list":
      return <ListView list={token} />;
    case "table":
      return <TableView table={token} />;
    case "math":
      return <MathView tex={token.tex} display={token.display} />;
    case "html":
      return <AsWritten text={token.text.trim()} />;
    case "as_written":
      return <AsWritten text={token.text} />;
    case "paragraph":
      return <p>{inline(token.tokens)}</p>;
    case "text":
      return token.tokens ? inline(token.tokens) : decodeEntities(token.text);
    default:
      return inlineNode(token, 0);
  }
}

function blocks(tokens: readonly Token[]): ReactNode {
  return tokens.map((token, index) => <BlockView key={index} token={token} open={false} />);
}

/** Headings of a message are below those of the page, all on one level, because agents skip levels. */
function Heading({ depth, children }: { depth: number; children: ReactNode }) {
  return <h3 className={`heading-${depth}`}>{children}</h3>;
}

function ListView({ list }: { list: Tokens.List }) {
  const [all, setAll] = useState(false);
  const items = all ? list.items : list.items.slice(0, MAX_SHOWN);
  const shown = items.map((item, index) => (
    <li key={index} className={item.task ? "task" : undefined}>
      {blocks(item.tokens)}
    </li>
  ));
  const rest = list.items.length - items.length;
  return (
    <>
      {list.ordered ? <ol start={Number(list.start) || 1}>{shown}</ol> : <ul>{shown}</ul>}
      {rest > 0 && <ShowRest count={rest} what="items" onShow={() => setAll(true)} />}
    </>
  );
}

function TableView({ table }: { table: Tokens.Table }) {
  const [all, setAll] = useState(false);
  const rows = all ? table.rows : table.rows.slice(0, MAX_SHOWN);
  const rest = table.rows.length - rows.length;
  return (
    <>
      <div className="table" tabIndex={0} role="group" aria-label="table">
        <table>
          <thead>
            <tr>
              {table.header.map((cell, index) => (
                <th key={index} scope="col" className={alignment(cell)}>
                  {inline(cell.tokens)}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rows.map((row, at) => (
              <tr key={at}>
                {row.map((cell, index) => (
                  <td key={index} className={alignment(cell)}>
                    {inline(cell.tokens)}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rest > 0 && <ShowRest count={rest} what="rows" onShow={() => setAll(true)} />}
    </>
  );
}

function ShowRest({ count, what, onShow }: { count: number; what: string; onShow: () => void }) {
  return (
    <button type="button" className="small-button" onClick={onShow}>
      Show {count} more {what}
    </button>
  );
}

function alignment(cell: Tokens.TableCell): string | undefined {
  return cell.align ? `align-${cell.align}` : undefined;
}

function inline(tokens: readonly Token[]): ReactNode {
  return tokens.map(inlineNode);
}

function inlineNode(any: Token, key: number): ReactNode {
  const token = any as KnownToken;
  switch (token.type) {
    case "strong":
      return <strong key={key}>{inline(token.tokens)}</strong>;
    case "em":
      return <em key={key}>{inline(token.tokens)}</em>;
    case "del":
      return <del key={key}>{inline(token.tokens)}</del>;
    case "codespan":
      return <code key={key}>{token.text}</code>;
    case "br":
      return <br key={key} />;
    case "checkbox":
      return (
        <input
          key={key}
          type="checkbox"
          checked={token.checked}
          disabled
          readOnly
          aria-label={token.checked ? "done" : "to do"}
        />
      );
    case "link":
      return (
        <LinkView key={key} href={token.href}>
          {inline(token.tokens)}
        </LinkView>
      );
    case "image":
      return <ImageView key={key} href={token.href} alt={token.text} />;
    case "math":
      return <MathView key={key} tex={token.tex} display={token.display} />;
    case "html":
      return /^<br\s*\/?>$/i.test(token.raw.trim()) ? <br key={key} /> : <Fragment key={key}>{token.raw}</Fragment>;
    case "text":
      return <Fragment key={key}>{token.tokens ? inline(token.tokens) : decodeEntities(token.text)}</Fragment>;
    case "escape":
      return <Fragment key={key}>{token.text}</Fragment>;
    default:
      return <Fragment key={key}>{any.raw}</Fragment>;
  }
}

export function LinkView({ href, children }: { href: string; children: ReactNode }) {
  const openFile = useContext(OpenFileContext);
  const to = target(href);
  if (to.kind === "web") {
    return (
      <a href={to.href} target="_blank" rel="noopener noreferrer" title={to.href}>
        {children}
      </a>
    );
  }
  if (to.kind === "file" && openFile) {
    return (
      <button
        type="button"
        className="link-button"
        title={`Open ${to.path}`}
        onClick={() => openFile(to.path, to.line)}
      >
        {children}
      </button>
    );
  }
  return <span title={href}>{children}</span>;
}

/** Shows an image whose data is in the text. An image elsewhere becomes a link: loading it would reveal the reader. */
function ImageView({ href, alt }: { href: string; alt: string }) {
  const source = picture(href);
  if (source) return <img src={source} alt={alt || "image"} />;
  return <LinkView href={href}>image: {alt || href}</LinkView>;
}

function languageOf(info: string | undefined): string {
  return /^[\w+#.-]+/.exec(info ?? "")?.[0]?.toLowerCase() ?? "";
}

/** The known tokens. The library's own union is open to any name. */
type KnownToken =
  | Tokens.Space
  | Tokens.Def
  | Tokens.Code
  | Tokens.Heading
  | Tokens.Hr
  | Tokens.Blockquote
  | Tokens.List
  | Tokens.Table
  | MathToken
  | AsWrittenToken
  | Tokens.HTML
  | Tokens.Paragraph
  | Tokens.Text
  | Tokens.Strong
  | Tokens.Em
  | Tokens.Del
  | Tokens.Codespan
  | Tokens.Br
  | Tokens.Checkbox
  | Tokens.Link
  | Tokens.Image
  | Tokens.Escape;
