// Models from files that are dropped on the page or chosen there. The library runs in workers, and nothing
// leaves the browser.

import { busy, h, head, notice, section, shown } from './dom.js';
import { bytes, plural } from './format.js';
import { answerOf, ask, Problem, use } from './source.js';
import { forget, models } from './state.js';
import * as take from './take.js';

/** Workers at a time. Each has opened the models, and answers one question at a time. */
const MOST = Math.max(1, Math.min(4, navigator.hardwareConcurrency || 2));

/** The most files of a drop; a folder with more is not one of a model. */
const FILES = 20_000;

const decoder = new TextDecoder();
const parsed = (data, question) => answerOf(decoder.decode(data), question);

/** The library, compiled once for all workers. */
let compiled = null;
function library() {
  compiled ??= WebAssembly.compileStreaming(fetch('weighbridge.wasm')).catch(async () => {
    // Some hosts send it with another media type.
    const response = await fetch('weighbridge.wasm');
    if (!response.ok) throw new Problem({ message: `weighbridge.wasm cannot be loaded: status ${response.status}` });
    return WebAssembly.compile(await response.arrayBuffer());
  });
  compiled.catch(() => { compiled = null; });
  return compiled;
}

// The only script that a text may name: the worker's.
const scripts = globalThis.trustedTypes?.createPolicy('worker', { createScriptURL: () => 'worker.js' });

/** One worker, and what is asked of it. */
class Helper {
  constructor() {
    this.worker = new Worker(scripts?.createScriptURL('') ?? 'worker.js');
  }

  /** Sends a message, and gives the answer as JSON. */
  send(message, onprogress) {
    return new Promise((resolve, reject) => {
      this.worker.onerror = (event) => reject(new Problem({ message: `the library cannot be run: ${event.message}` }));
      this.worker.onmessage = ({ data }) => {
        if (data.progress !== undefined) onprogress?.(data.progress);
        else if (data.broken !== undefined) { this.broken = true; reject(new Problem({ message: `the library stopped: ${data.broken}`, advice: 'the browser may have too little memory for this' })); }
        else if (data.answered) resolve(parsed(data.answer, message.question));
        else reject(new Problem(parsed(data.answer)));
      };
      this.worker.postMessage(message);
    });
  }

  async open(files) {
    this.opened = await this.send({ module: await library(), files });
    return this;
  }

  end() { this.worker.terminate(); }
}

/** Workers that have opened the same files. */
class Helpers {
  constructor(files) {
    Object.assign(this, { files, all: new Set(), idle: [], waiting: [] });
  }

  /** A worker that has nothing to do, started if there are few; waits otherwise. */
  async take(signal) {
    signal?.throwIfAborted();
    const free = this.idle.pop();
    if (free) return free;
    if (this.all.size < MOST) {
      const helper = new Helper();
      this.all.add(helper);
      try {
        return await helper.open(this.files);
      } catch (error) {
        this.drop(helper);
        throw error;
      }
    }
    return new Promise((resolve, reject) => {
      const turn = { resolve, reject };
      this.waiting.push(turn);
      signal?.addEventListener('abort', () => {
        const place = this.waiting.indexOf(turn);
        if (place >= 0) { this.waiting.splice(place, 1); reject(signal.reason); }
      }, { once: true });
    });
  }

  give(helper) {
    const next = this.waiting.shift();
    if (next) next.resolve(helper);
    else this.idle.push(helper);
  }

  /** Ends a worker. Who waits gets another. */
  drop(helper) {
    helper.end();
    this.all.delete(helper);
    const next = this.waiting.shift();
    if (next) this.take().then(next.resolve, next.reject);
  }

  /** Answers a question. What is no longer wanted ends with its worker: nothing else can interrupt it. */
  async ask(question, signal, onprogress) {
    const helper = await this.take(signal);
    if (signal?.aborted) { this.give(helper); throw signal.reason; }
    let stop = null;
    const stopped = new Promise((_, reject) => {
      stop = () => reject(signal.reason);
      signal?.addEventListener('abort', stop, { once: true });
    });
    try {
      const answer = await Promise.race([helper.send({ question }, onprogress), stopped]);
      this.give(helper);
      return answer;
    } catch (error) {
      if (signal?.aborted || helper.broken) this.drop(helper);
      else this.give(helper);
      throw error;
    } finally {
      signal?.removeEventListener('abort', stop);
    }
  }

  end() {
    for (const helper of this.all) helper.end();
    for (const { reject } of this.waiting.splice(0)) reject(new DOMException('other files were opened', 'AbortError'));
  }
}

let files = [];
let helpers = null;
let problems = [];

use((question, parameters, signal, onprogress) => {
  if (!helpers) return Promise.resolve({ models: [] });
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    if (value !== undefined && value !== null) query.set(name, value);
  }
  return helpers.ask(`${question}?${query}`, signal, onprogress);
});

/** Whether two files are the same one. */
const same = (a, b) => a.name === b.name && a.size === b.size && a.lastModified === b.lastModified;

/**
 * The files of a drop with paths that no other drop has. Files without a folder get one if they are a model only
 * together: if one of them is a config or an index.
 */
function placed(dropped) {
  const together = dropped.some(({ path }) => /^(config|[^/]*\.index)\.json$/.test(path));
  const list = dropped.map(({ path, file }) => ({ path: together && !path.includes('/') ? `files/${path}` : path, file }));
  const known = new Map(files.map(({ path, file }) => [path, file]));
  const clashes = (path, file) => known.has(path) && !same(known.get(path), file);
  const top = (path) => path.split('/')[0];
  const renamed = new Map();
  for (const { path, file } of list) {
    if (clashes(path, file)) renamed.set(top(path), '');
  }
  for (const name of renamed.keys()) {
    let number = 2;
    const other = () => name.replace(/(\.[^.]*)?$/, (ending) => ` (${number})${ending}`);
    while (files.some(({ path }) => top(path) === other())) number += 1;
    renamed.set(name, other());
  }
  const moved = ({ path, file }) => ({ path: (renamed.get(top(path)) ?? top(path)) + path.slice(top(path).length), file });
  const fresh = list.map(moved);
  const paths = new Set(fresh.map(({ path }) => path));
  return [...files.filter(({ path }) => !paths.has(path)), ...fresh];
}

/** Opens files beside those that are open. Gives whether there are models now. */
async function open(dropped) {
  if (dropped.length === 0) return;
  const main = document.getElementById('main');
  main.replaceChildren(busy(`Opening ${plural(dropped.length, 'file')}…`));
  const before = { files, helpers };
  const wanted = placed(dropped);
  const next = new Helpers(wanted);
  try {
    const first = await next.take();
    problems = first.opened.problems;
    if (first.opened.models === 0) {
      next.end();
    } else {
      next.give(first);
      before.helpers?.end();
      [files, helpers] = [wanted, next];
      forget();
    }
  } catch (error) {
    problems = [error];
  }
  const count = helpers ? (await models()).length : 0;
  const first = count > 2 ? '#/compare/0/all' : count > 1 ? '#/compare/0/1' : '#/0/overview';
  const route = count > 0 && problems.length === 0 ? first : '#/open';
  if (location.hash === route) window.dispatchEvent(new HashChangeEvent('hashchange'));
  else location.hash = route;
}

function close() {
  helpers?.end();
  [files, helpers, problems] = [[], null, []];
  forget();
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

/** The files of a folder of a drop, and of the folders in it. */
async function inside(entry, path, found) {
  if (found.length >= FILES || entry.name.startsWith('.')) return;
  if (entry.isFile) {
    found.push({ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) });
    return;
  }
  const reader = entry.createReader();
  for (;;) {
    // A folder is listed in parts, of which the last is empty.
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) return;
    for (const one of some) await inside(one, `${path}/${one.name}`, found);
  }
}

const ordered = (list) => list.sort((a, b) => (a.path < b.path ? -1 : 1));

async function dropped(transfer) {
  // The list of a drop is empty as soon as this function waits.
  const entries = [...transfer.items].filter((item) => item.kind === 'file').map((item) => [item.webkitGetAsEntry?.(), item.getAsFile()]);
  const found = [];
  for (const [entry, file] of entries) {
    if (entry?.isDirectory) await inside(entry, entry.name, found);
    else if (file) found.push({ path: file.name, file });
  }
  return ordered(found);
}

const chosen = (list) => ordered([...list].map((file) => ({ path: file.webkitRelativePath || file.name, file })).filter(({ path }) => !path.split('/').some((step) => step.startsWith('.'))));

function over(event) {
  if (!event.dataTransfer?.types.includes('Files')) return;
  event.preventDefault();
  document.documentElement.classList.toggle('dropping', event.type === 'dragover' || event.type === 'dragenter');
}
for (const type of ['dragenter', 'dragover', 'dragleave']) window.addEventListener(type, over);
window.addEventListener('drop', (event) => {
  over(event);
  if (event.dataTransfer?.types.includes('Files')) dropped(event.dataTransfer).then(open);
});

/** A button that lets a person choose files, or a folder. */
function choice(text, attributes, css) {
  const input = h('input', { type: 'file', class: 'visually-hidden', multiple: true, tabindex: -1, 'aria-label': text, ...attributes, onchange: () => { open(chosen(input.files)); } });
  return [h('button', { type: 'button', class: css, onclick: () => input.click() }, text), input];
}

/** The view that opens files. */
export async function show() {
  const list = helpers ? (await ask('models')).models : [];
  const nodes = [
    head(list.length > 0 ? 'Open models' : 'Drop a model here', {
      sub: 'GGUF, safetensors, MLX or whisper.cpp: a file, all shards, or a folder. Two models or more are compared. Nothing is uploaded: the files are read in this browser.',
    }),
    h('div', { class: 'drop' },
      h('p', {}, list.length > 0 ? 'Drop another model, to compare it' : 'Drop files or a folder anywhere on this page, or'),
      h('div', { class: 'tools' }, choice('Choose files', {}, 'button primary'), choice('Choose a folder', { webkitdirectory: true }, 'button'))),
  ];
  if (problems.length > 0) {
    nodes.push(h('div', { class: 'notices', role: 'region', 'aria-label': 'What could not be opened' }, problems.slice(0, 12).map((problem) => notice('Error', problem.message, problem.advice)),
      problems.length > 12 && h('p', { class: 'muted small' }, `and ${problems.length - 12} more`)));
  }
  if (list.length > 0) {
    nodes.push(section('Open now', null, take.button('Close all', close), h('table', { class: 'plain' },
      h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Model'), h('th', { scope: 'col' }, 'Type'), h('th', { scope: 'col', class: 'right' }, 'Size'))),
      h('tbody', {}, list.map((model, at) => h('tr', {}, h('td', {}, h('a', { href: `#/${at}/overview` }, shown(model.path, 200))), h('td', {}, shown(model.dtype ?? '–', 40)), h('td', { class: 'right' }, bytes(model.file_bytes))))))));
  }
  return { title: 'Open', nodes };
}
