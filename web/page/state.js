// What the page knows: models, and answers that do not change while it is open.

import { ask } from './source.js';

const answers = new Map();

/** Asks once; later callers get the same answer. */
export function once(question, parameters = {}) {
  const key = `${question} ${JSON.stringify(parameters)}`;
  if (!answers.has(key)) {
    const answer = ask(question, parameters);
    answers.set(key, answer);
    answer.catch(() => answers.delete(key));
  }
  return answers.get(key);
}

export const models = async () => (await once('models')).models;
/** The limits beyond which something stands out. */
export const limits = async () => (await once('models')).limits;
export const overview = (model) => once('overview', { model });
export const tensors = (model) => once('tensors', { model });
export const pairsOf = (a, b) => once('pairs', { a, b });

/** The last component of each path; where several are the same, with the folders that distinguish them. */
export function labelsOf(list) {
  const parts = list.map((model) => model.path.replace(/[/\\]+$/, '').split(/[/\\]/));
  return parts.map((mine) => {
    for (let length = 1; length < mine.length; length += 1) {
      const text = mine.slice(-length).join('/');
      if (parts.filter((other) => other.slice(-length).join('/') === text).length === 1) return text;
    }
    return mine.join('/');
  });
}

/** The layer of a name and what remains of the name, or null if it has no number between dots. */
export function layerOf(name) {
  const found = /^(?:(.*?)\.)??(\d+)\.(.+)$/s.exec(name);
  return found && { stack: found[1] ?? '', layer: Number(found[2]), rest: found[3] };
}

/** The stack of a layer in words, empty for the one of most models: `enc`. */
export const stackName = ({ stack }) => stack.replace(/(^|\.)(layers?|blk|h|blocks)$/, '');

/** A layer in words: `layer 0`, `enc layer 3`. */
export const layerName = (found) => `${stackName(found)} layer ${found.layer}`.trim();

export const KINDS = ['attention', 'feed-forward', 'embedding and output', 'norms', 'other'];

/** What a tensor is for, by its name. */
export function kindOf(name) {
  const low = name.toLowerCase();
  if (/norm|(^|\.)ln_?\d|layernorm/.test(low)) return 3;
  if (/attn|attention|(^|[._])(q|k|v|o|qkv)(_proj)?\.|ssm|mamba|linear_attn/.test(low)) return 0;
  if (/ffn|mlp|expert|router|gate|feed_forward|fc\d|up_proj|down_proj/.test(low)) return 1;
  if (/embd|embed|token|output|lm_head|wte|wpe|position/.test(low)) return 2;
  return 4;
}

/** The filter for all tensors of a kind, by the first word of it; `dtype:` is for a dtype alone. */
export const kindFilter = (kind) => `kind:${kind.split(' ')[0]}`;

/**
 * A filter as words that must all occur in a name, a dtype or a kind. `read(row)` gives `{text, dtypes, name}`: all
 * that is searched, and the name that decides the kind.
 */
export function matcher(text, read) {
  // The kind of a row takes long to find out, and few words are part of one.
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => {
    const [, field, rest] = /^(kind|dtype):(.*)$/.exec(word) ?? [];
    const isMeant = field === 'kind' ? (kind) => kind.startsWith(rest) : (kind) => kind.includes(word);
    return { word, field, rest, kinds: KINDS.flatMap((kind, number) => (isMeant(kind) ? [number] : [])) };
  });
  return (row) => {
    const { text: spelled, dtypes, name } = read(row);
    const all = spelled.toLowerCase();
    return words.every(({ word, field, rest, kinds }) => {
      if (field === 'dtype') return dtypes.some((dtype) => dtype.toLowerCase() === rest);
      return (!field && all.includes(word)) || (kinds.length > 0 && kinds.includes(kindOf(name)));
    });
  };
}

/** Answers to a question about many tensors, which come in batches. Views listen while they are shown. */
class Batches {
  constructor(question, parameters, list, total) {
    Object.assign(this, { question, parameters, list, total, found: [], next: 0, error: null, running: false, listeners: new Set() });
  }

  get done() { return this.next === null; }

  /** Calls `listener` after every batch until the signal is aborted; with nobody listening, the work pauses. */
  listen(listener, signal) {
    this.listeners.add(listener);
    signal.addEventListener('abort', () => {
      this.listeners.delete(listener);
      if (this.listeners.size === 0) this.stop?.abort();
    });
    listener(this);
    this.run();
  }

  async run() {
    if (this.running || this.done) return;
    this.running = true;
    this.error = null;
    this.stop = new AbortController();
    const { signal } = this.stop;
    try {
      while (!this.done && this.listeners.size > 0) {
        const answer = await ask(this.question, { ...this.parameters, from: this.next }, signal);
        this.found.push(...answer[this.list]);
        this.next = answer.next;
        for (const listener of this.listeners) listener(this);
      }
    } catch (error) {
      if (error.name !== 'AbortError') {
        this.error = error;
        for (const listener of this.listeners) listener(this);
      }
    }
    this.running = false;
    if (!this.error && !this.done && this.listeners.size > 0) this.run();
  }
}

const batches = new Map();

function batch(question, parameters, list, total) {
  const key = `${question} ${JSON.stringify(parameters)}`;
  if (!batches.has(key)) batches.set(key, new Batches(question, parameters, list, total));
  return batches.get(key);
}

/** The statistics of every tensor of a model. */
export const statisticsOf = (model, total) => batch('statistics', { model, bins: 16 }, 'tensors', total);

/** How every pair of two models differs. */
export const differencesOf = (a, b, total) => batch('differences', { a, b }, 'differences', total);

/** Forgets every answer: the models are others. */
export function forget() {
  answers.clear();
  for (const state of batches.values()) {
    state.listeners.clear();
    state.stop?.abort();
  }
  batches.clear();
}

/** The address of a view. */
export function link(...steps) {
  const last = steps.at(-1);
  const query = typeof last === 'object' ? steps.pop() : null;
  const path = steps.map((step) => encodeURIComponent(step)).join('/');
  const entries = Object.entries(query ?? {}).filter(([, value]) => value !== null && value !== undefined && value !== '');
  return `#/${path}${entries.length > 0 ? `?${new URLSearchParams(entries)}` : ''}`;
}

/** Changes the parameters of the address without another entry in the history. */
export function keep(query) {
  const [path, old] = location.hash.split('?');
  const all = new URLSearchParams(old);
  for (const [name, value] of Object.entries(query)) {
    if (value === null || value === undefined || value === '') all.delete(name);
    else all.set(name, value);
  }
  const text = all.toString();
  const place = path || '#/';
  history.replaceState(history.state, '', text ? `${place}?${text}` : place);
}
