// All tensors of a model, as a table or folded by layer.

import { h, head, name, segments, shortName, shown } from './dom.js';
import { base, bits, bytes, count, elements, number, percent, plural, quoted, shape, whole } from './format.js';
import { keep, layerName, layerOf, link, matcher, statisticsOf, tensors } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

/** The rows of a model's table. */
export function rowsOf(table) {
  return table.name.map((stored, at) => ({
    at, stored, canonical: table.canonical[at], dtype: table.dtypes[table.dtype[at]], shape: table.shape[at],
    elements: elements(table.shape[at]), bits: table.bits[at], bytes: table.bytes[at],
  }));
}

/** What a filter looks at. */
const filtered = (row) => ({ names: [row.stored, row.canonical ?? ''], dtypes: [row.dtype], name: row.canonical ?? row.stored });

export async function show({ model, list, query, signal }) {
  const found = await tensors(model);
  const rows = rowsOf(found);
  const path = list[model].path;
  const most = Math.max(...rows.slice(0, 5000).map((row) => row.bytes), 1);
  let values = null;
  const single = (get, row) => {
    const entry = values?.found[row.at];
    return entry && entry.mean !== undefined ? get(entry) : null;
  };
  // What a group of tensors has: the sum, the least or the largest of those that are known.
  const together = { sum: (all) => all.reduce((sum, one) => sum + one, 0), least: (all) => Math.min(...all), most: (all) => Math.max(...all) };
  const stat = (get, join) => (row) => {
    if (!row.group) return single(get, row);
    const all = row.members.map((member) => single(get, member)).filter((one) => one !== null);
    return all.length > 0 ? together[join](all) : null;
  };
  const statistic = (label, get, format, join = 'most') => ({ label, width: '96px', right: true, hide: 'hide-s', most: true, sort: stat(get, join), cell: (row) => { const value = stat(get, join)(row); return value === null ? (values?.found[row.at]?.reason ? 'unread' : '') : format(value); } });
  const open = new Set();
  let grouped = query.fold === '1';
  const toggle = (group) => { if (open.has(group.key)) open.delete(group.key); else open.add(group.key); fill(true); };
  const first = (row) => {
    if (row.group) {
      return h('button', { type: 'button', 'aria-expanded': String(open.has(row.key)), onclick: () => toggle(row) },
        h('span', { class: open.has(row.key) ? 'fold open' : 'fold', 'aria-hidden': 'true' }, '›'), name(row.label, 80), h('span', { class: 'muted' }, plural(row.members.length, 'tensor')));
    }
    return h('a', { href: link(model, 'tensor', row.stored) }, shortName(row.stored));
  };
  const leaf = (get) => (row) => (row.group ? '' : get(row));
  const places = [
    { label: 'Stored name', width: 'minmax(124px, 1.4fr)', narrow: 'minmax(110px, 1fr)', wraps: true, sort: (row) => row.stored ?? '', cell: first },
    { label: 'Canonical name', width: 'minmax(150px, 1.2fr)', hide: 'hide-m', sort: (row) => row.canonical ?? null, cell: leaf((row) => h('span', { class: 'canon' }, row.canonical ? name(row.canonical, 160) : '–')) },
    { label: 'Dtype', width: '104px', narrow: '56px', sort: (row) => row.dtype ?? '', cell: leaf((row) => shown(row.dtype, 30)) },
    { label: 'Shape', width: '124px', right: true, hide: 'hide-s', most: true, sort: (row) => row.elements, cell: leaf((row) => shape(row.shape)) },
    { label: 'Bits', width: '54px', right: true, hide: 'hide-m', most: true, sort: (row) => row.bits ?? null, cell: leaf((row) => bits(row.bits)) },
    { label: 'Size', width: '88px', narrow: '72px', right: true, most: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
  ];
  const more = [
    statistic('Deviation', (entry) => entry.deviation, number),
    statistic('Least', (entry) => entry.min?.value ?? null, number, 'least'),
    statistic('Largest', (entry) => entry.max?.value ?? null, number),
    statistic('Zeros', (entry) => entry.zeros / entry.elements, percent),
    statistic('Outliers', (entry) => entry.outliers, whole, 'sum'),
    statistic('NaN, ∞', (entry) => entry.nan + entry.infinite, whole, 'sum'),
  ];
  const bar = { label: 'Share', width: '72px', hide: 'hide-m', cell: (row) => (row.group ? '' : h('span', { class: 'bar', vars: { '--w': `${(row.bytes / most) * 100}%` }, 'aria-hidden': 'true' })) };
  const place = h('div', {});
  const status = h('p', { class: 'muted small num', role: 'status' });
  const progress = h('div', { class: 'busy', hidden: true }, h('progress', { max: 1, value: 0, 'aria-label': 'Statistics' }), h('span', {}));
  let table = null;
  let chosen = [];

  function build() {
    const withValues = query.values === '1';
    table = new Table({
      label: 'Tensors', rows: [], height: 'calc(100vh - 260px)',
      columns: withValues ? [places[0], places[2], places[3], ...more] : [...places, bar],
      onsort: (sort) => { keep({ sort }); query.sort = sort; },
      open: (row) => { if (row.group) toggle(row); else location.hash = link(model, 'tensor', row.stored); },
      decorate: (node, row) => {
        if (row.group) node.classList.add('group');
        else if (grouped) node.classList.add('child');
      },
      hint: (row) => (row.group ? '' : shown(row.stored, 400)),
      empty: rows.length === 0 ? 'The model has no tensors.' : 'No name, dtype or kind matches.',
    });
    table.sortAs(query.sort);
    place.replaceChildren(table.node);
    fill();
    if (withValues) follow();
  }

  function fill(stay = false) {
    const text = search.value.trim();
    chosen = text === '' ? rows : rows.filter(matcher(text, filtered));
    const size = chosen.reduce((sum, row) => sum + row.bytes, 0);
    const weights = chosen.reduce((sum, row) => sum + row.elements, 0);
    status.textContent = `${whole(chosen.length)}${chosen.length < rows.length ? ` of ${whole(rows.length)}` : ''} tensors, ${count(weights)} weights, ${bytes(size)}`;
    const top = table.box.scrollTop;
    table.show(grouped ? folded(chosen) : chosen);
    if (stay) { table.box.scrollTop = top; table.draw(); }
  }

  function folded(some) {
    const groups = new Map();
    for (const row of some) {
      const layer = layerOf(row.canonical ?? row.stored);
      const key = layer ? `${layer.stack}.${layer.layer}` : '';
      if (!groups.has(key)) groups.set(key, { group: true, key, label: layer ? layerName(layer) : 'outside the layers', layer: layer?.layer ?? -1, stack: layer?.stack ?? '', members: [], bytes: 0 });
      const group = groups.get(key);
      group.members.push(row);
      group.bytes += row.bytes;
    }
    const sorted = [...groups.values()].sort((a, b) => a.stack.localeCompare(b.stack) || a.layer - b.layer);
    const searching = search.value.trim() !== '' && some.length < 500;
    if (searching) for (const group of sorted) open.add(group.key);
    return sorted.flatMap((group) => (open.has(group.key) ? [group, ...group.members] : [group]));
  }

  function follow() {
    values = statisticsOf(model, rows.length);
    values.listen((state) => {
      const [meter, text] = progress.children;
      progress.hidden = state.done;
      meter.value = state.found.length / Math.max(1, rows.length);
      const unread = state.found.filter((entry) => entry?.reason).length;
      if (unread > 0) status.textContent = `${whole(unread)} of ${whole(rows.length)} tensors cannot be read`;
      text.textContent = state.error ? state.error.message : `${whole(state.found.length)} of ${whole(rows.length)} tensors read`;
      if (state.done || state.found.length < 2000 || state.found.length % 2048 < 256) table.refresh();
    }, signal);
  }

  let pause = 0;
  const search = h('input', { type: 'search', placeholder: 'Filter: name, dtype, kind', 'aria-label': 'Filter tensors', value: query.filter ?? '', spellcheck: 'false', autocomplete: 'off',
    oninput: () => { clearTimeout(pause); pause = setTimeout(() => { keep({ filter: search.value.trim() }); fill(); }, rows.length > 5000 ? 120 : 0); } });
  const tools = h('div', { class: 'tools' }, search,
    segments('Columns', [['', 'Bytes'], ['1', 'Values']], query.values ?? '', (value) => { query.values = value; keep({ values: value }); build(); }),
    segments('Arrangement', [['', 'List'], ['1', 'By layer']], query.fold ?? '', (value) => { grouped = value === '1'; keep({ fold: value }); fill(); }),
    take.button('CSV', () => take.csv(`${base(path)} tensors`, ['stored', 'canonical', 'dtype', 'shape', 'bits', 'bytes', 'min', 'max', 'mean', 'deviation', 'zeros', 'outliers', 'nan', 'infinite'],
      chosen.map((row) => {
        const entry = values?.found[row.at];
        return [row.stored, row.canonical, row.dtype, row.shape.join('x'), row.bits, row.bytes, entry?.min?.value, entry?.max?.value, entry?.mean, entry?.deviation, entry?.zeros, entry?.outliers, entry?.nan, entry?.infinite];
      })), 'Save the rows shown'));
  build();
  return {
    title: 'Tensors',
    nodes: [head('Tensors', { crumb: name(base(path), 80), sub: status, tools }), place, progress, take.command(`weighbridge inspect ${quoted(path)} ${query.values === '1' ? '--stats' : '--all'}`)],
  };
}
