// The tokens of a model's vocabulary: only those in view are asked for.

import { h, head, name, shown, trouble } from './dom.js';
import { base, number, quoted, whole } from './format.js';
import { ask } from './source.js';
import { keep, overview } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

const BATCH = 500;

export async function show({ model, list, query, signal }) {
  const { tokenizer } = await overview(model);
  const path = list[model].path;
  if (!tokenizer?.kind) {
    return { title: 'Tokens', nodes: [head('Tokens', { crumb: name(base(path), 80) }), tokenizer?.error ? trouble(new Error(tokenizer.error)) : h('p', { class: 'muted' }, 'No file of the model has a tokenizer.')] };
  }
  const status = h('span', { class: 'num', role: 'status' });
  const special = new Map(tokenizer.special.map(([purpose, id]) => [id, purpose]));
  const batches = new Map();
  let search = query.search ?? '';
  let run = 0;
  const token = (at) => {
    const from = at - (at % BATCH);
    const key = from;
    if (!batches.has(key)) {
      batches.set(key, null);
      const mine = run;
      ask('tokens', { model, from, search: search || null }, signal).then((answer) => {
        if (mine !== run) return;
        batches.set(key, answer.tokens);
        table.forget();
        table.draw();
      }, () => batches.delete(key));
    }
    return batches.get(key)?.[at - from] ?? null;
  };
  const part = (place, format) => (at) => { const found = token(at); return found && found[place] !== null ? format(found[place]) : ''; };
  const table = new Table({
    label: 'Tokens', rows: [], height: 'calc(100vh - 260px)', empty: 'No token contains this text.',
    columns: [
      { label: 'Number', width: '84px', right: true, cell: part(0, String) },
      { label: 'Token', width: 'minmax(150px, 1fr)', cell: part(1, (text) => h('code', { class: 'name', dir: 'auto' }, shown(text, 160))) },
      { label: 'Purpose', width: '110px', hide: 'hide-s', cell: part(0, (id) => special.get(id) ?? '') },
      { label: 'Kind', width: '120px', hide: 'hide-s', cell: part(2, String) },
      { label: 'Score', width: '110px', right: true, hide: 'hide-m', cell: part(3, number) },
    ],
  });
  const load = async () => {
    run += 1;
    const mine = run;
    batches.clear();
    try {
      const answer = await ask('tokens', { model, from: 0, search: search || null }, signal);
      if (mine !== run) return;
      batches.set(0, answer.tokens);
      status.textContent = search ? `${whole(answer.total)} of ${whole(tokenizer.tokens)} tokens` : `${whole(answer.total)} tokens`;
      table.show(Array.from({ length: answer.total }, (_, at) => at));
    } catch (error) {
      if (error.name !== 'AbortError') status.textContent = error.message;
    }
  };
  let pause = 0;
  const input = h('input', { type: 'search', placeholder: 'Search: text or number', 'aria-label': 'Search tokens', value: search, spellcheck: 'false', autocomplete: 'off',
    oninput: () => { clearTimeout(pause); pause = setTimeout(() => { search = input.value; keep({ search }); load(); }, 120); } });
  await load();
  return {
    title: 'Tokens',
    nodes: [head('Tokens', { crumb: name(base(path), 80), sub: [status, h('span', {}, name(tokenizer.kind)), h('span', {}, 'from ', name(tokenizer.source, 60))], tools: input }), table.node,
      take.command(`weighbridge run tokens ${quoted(path)} --ids 0,1,2 --json`)],
  };
}
