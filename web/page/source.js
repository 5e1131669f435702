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

/**
 * An answer as JSON. Metadata may have whole numbers that JavaScript would round: those of the overview are kept as
 * texts, where the browser tells how they are spelled.
 */
export function answerOf(text, question = '') {
  if (!question.startsWith('overview')) return JSON.parse(text);
  const isRounded = (value, spelled) => Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(spelled ?? '');
  return JSON.parse(text, (_, value, context) => (isRounded(value, context?.source) ? context.source : value));
}

let jobs = 0;

/** Asks how far a question is, every half second, until it is answered. */
async function follow(job, answered, onprogress) {
  while (!answered.done) {
    await new Promise((resolve) => { setTimeout(resolve, 500); });
    if (answered.done) return;
    const { done, total } = await overHttp('progress', { of: job }).catch(() => ({}));
    if (total && !answered.done) onprogress(done / total, total);
  }
}

async function overHttp(question, parameters, signal, onprogress) {
  const query = new URLSearchParams();
  const answered = { done: false };
  if (onprogress) {
    jobs += 1;
    const job = `${Math.random().toString(36).slice(2)}-${jobs}`;
    query.set('job', job);
    follow(job, answered, onprogress);
  }
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) query.set(name, value);
  }
  let response;
  try {
    response = await fetch(`api/${question}?${query}`, { signal, cache: 'no-store', referrerPolicy: 'no-referrer' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem({ message: 'the program does not answer: it may have ended', kind: 'ended' }, 0);
  } finally {
    answered.done = true;
  }
  if (response.ok) return answerOf(await response.text(), question);
  const text = await response.text();
  let answer = { message: text.trim() };
  try { answer = JSON.parse(text); } catch { /* a refusal is plain text */ }
  throw new Problem(answer, response.status);
}

let source = overHttp;

/** Replaces the source: a function of a question, its parameters, an AbortSignal and what is told of progress. */
export function use(other) { source = other; }

/** What is being read, and how far: the questions that take long. */
const reading = new Set();
let shownReading = () => {};

/** Sets who is told of what is being read: a list of `{what, share, total}`. */
export function watchReading(listener) { shownReading = listener; }

const WHAT = {
  models: 'models', overview: 'the header', tensors: 'the list of tensors', tensor: 'the header', tokens: 'tokens', pairs: 'names',
  statistics: 'values', grid: 'values for the picture', differences: 'values of both models', standouts: 'values that stand out', findings: 'all values',
};

/** The time in ms after which a question is shown as being read. */
const LONG = 700;

/**
 * Asks a question. Aborting the signal ends the work on the answer. `onprogress` is called with how far the work is,
 * as a share of 1, and with the number of bytes, if the source knows it.
 */
export async function ask(question, parameters = {}, signal = undefined, onprogress = undefined) {
  const entry = { what: WHAT[question] ?? question, share: null, total: null };
  const timer = setTimeout(() => { reading.add(entry); shownReading([...reading]); }, LONG);
  const told = (share, total = null) => {
    Object.assign(entry, { share, total });
    onprogress?.(share, total);
    if (reading.has(entry)) shownReading([...reading]);
  };
  try {
    return await source(question, parameters, signal, told);
  } finally {
    clearTimeout(timer);
    if (reading.delete(entry)) shownReading([...reading]);
  }
}
