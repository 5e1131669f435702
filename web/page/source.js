// Where answers come from. Everything that the page shows is asked for here, as a question with parameters,
// and answered with JSON. The program answers over HTTP; where the page is without it, `files.js` takes its place.

/** An answer that says why there is none. */
export class Problem extends Error {
  constructor(answer, status) {
    super(answer.message ?? `the program answered with status ${status}`);
    this.kind = answer.kind ?? 'io';
    this.advice = answer.advice ?? null;
  }
}

async function overHttp(question, parameters, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) query.set(name, value);
  }
  let response;
  try {
    response = await fetch(`api/${question}?${query}`, { signal, cache: 'no-store', referrerPolicy: 'no-referrer' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem({ message: 'the program does not answer: it may have ended' }, 0);
  }
  if (response.ok) return response.json();
  const text = await response.text();
  let answer = { message: text.trim() };
  try { answer = JSON.parse(text); } catch { /* a refusal is plain text */ }
  throw new Problem(answer, response.status);
}

let source = overHttp;

/** Replaces the source: a function of a question, its parameters, an AbortSignal and what is told of progress. */
export function use(other) { source = other; }

/**
 * Asks a question. Aborting the signal ends the work on the answer. A source that knows how far the work is calls
 * `onprogress` with a share of 1.
 */
export function ask(question, parameters = {}, signal = undefined, onprogress = undefined) {
  return source(question, parameters, signal, onprogress);
}
