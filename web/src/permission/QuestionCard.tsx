import { useId, useState, type FormEvent } from "react";

import type { Bridge } from "../conversation/bridge";
import { ShowWhole } from "../conversation/ShowWhole";
import { LinkView, Markdown, target } from "../markdown";
import type { Form, Question } from "../protocol";
import { RequestError } from "../socket/requests";
import { describeQuestion } from "./describe";
import { FieldView } from "./FieldView";
import { contentOf, initialValues, type Value } from "./form";
import { useScopeRights } from "./scope";
import "./permission.css";

interface Props {
  bridge: Bridge;
  sessionId: string;
  question: Question;
}

const NO_FORM: Form = { fields: [], left_out: [], error: null };

/** A question of the agent: a form to fill in, or an address to visit. The server checks the answer. */
export function QuestionCard({ bridge, sessionId, question }: Props) {
  const heading = useId();
  const form = question.form ?? NO_FORM;
  const [values, setValues] = useState(() => initialValues(form));
  const [fieldErrors, setFieldErrors] = useState<Readonly<Record<string, string>>>({});
  const [sent, setSent] = useState(false);
  const [problem, setProblem] = useState("");
  const [whole, setWhole] = useState<Question | null>(null);
  const rights = useScopeRights();
  const pending = question.action === "pending";

  const answer = async (action: "accept" | "decline" | "cancel", content: Record<string, unknown> | null) => {
    setSent(true);
    setProblem("");
    setFieldErrors({});
    try {
      const { accepted } = await bridge.request("question.answer", {
        session_id: sessionId,
        question_id: question.id,
        action,
        content,
      });
      if (!accepted) setProblem("It was already answered elsewhere, or the agent withdrew it.");
    } catch (error) {
      const errors = error instanceof RequestError ? error.body.fields : {};
      setFieldErrors(errors);
      if (!form.fields.some((field) => field.name in errors)) {
        setProblem(error instanceof Error ? error.message : String(error));
      }
      setSent(false);
    }
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void answer("accept", question.mode === "url" ? null : contentOf(form, values));
  };
  const change = (name: string, value: Value) => setValues((before) => ({ ...before, [name]: value }));

  return (
    <section className={pending ? "card waiting" : "card"} aria-labelledby={heading} data-question={question.id}>
      <h2 id={heading} className="unseen">
        The agent asks
      </h2>
      <Markdown text={whole?.message ?? question.message} />
      {question.shortened && whole === null && (
        <ShowWhole bridge={bridge} sessionId={sessionId} row={question} onWhole={setWhole} />
      )}
      {pending ? (
        <form onSubmit={submit} noValidate>
          {question.mode === "url" && question.url !== null && <Address url={question.url} />}
          {form.fields.map((field) => (
            <FieldView
              key={field.name}
              field={field}
              value={values[field.name] ?? ""}
              error={fieldErrors[field.name]}
              onChange={(value) => change(field.name, value)}
            />
          ))}
          {form.error === null && form.left_out.length > 0 && (
            <p className="soft">The agent also asks for {form.left_out.join(", ")}, which cannot be shown here.</p>
          )}
          {form.error !== null && <p className="bad">This form cannot be answered: {form.error}.</p>}
          <div className="choices">
            <button
              type="submit"
              className="button primary"
              disabled={sent || !rights.canAnswer || form.error !== null}
            >
              {question.mode === "url" ? "Done" : "Answer"}
            </button>
            <button
              type="button"
              className="button"
              disabled={sent || !rights.canAnswer}
              title="Tell the agent that you will not answer"
              onClick={() => void answer("decline", null)}
            >
              Decline
            </button>
            <button
              type="button"
              className="button"
              disabled={sent || !rights.canAnswer}
              title="Close the question without an answer; the agent may ask again"
              onClick={() => void answer("cancel", null)}
            >
              Skip
            </button>
          </div>
        </form>
      ) : (
        <Answered question={question} />
      )}
      {problem && (
        <p className="bad" role="alert">
          {problem}
        </p>
      )}
    </section>
  );
}

/** Shows the whole address, so that people see where it leads. */
function Address({ url }: { url: string }) {
  const to = target(url);
  return (
    <p className="address">
      {to.kind === "web" ? (
        <LinkView href={url}>{to.href}</LinkView>
      ) : (
        <span>This address cannot be opened: {url}</span>
      )}
    </p>
  );
}

function Answered({ question }: { question: Question }) {
  const content = question.content;
  const entries =
    typeof content === "object" && content !== null ? Object.entries(content as Record<string, unknown>) : [];
  return (
    <>
      {entries.length > 0 && (
        <dl className="given">
          {entries.map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>{typeof value === "string" ? value : JSON.stringify(value)}</dd>
            </div>
          ))}
        </dl>
      )}
      <p className="soft">{describeQuestion(question)}</p>
    </>
  );
}
