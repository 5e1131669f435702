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
const filtered = (row) => ({ text: `${row.stored} ${row.canonical ?? ''} ${row.dtype}`, dtypes: [row.dtype], name: row.canonical ?? row.stored });

/** How the values of a group are joined, of those that are known. */
const TOGETHER = { sum: (all) => all.reduce((sum, one) => sum + one, 0), least: (all) => Math.min(...all), most: (all) => Math.max(...all) };

/** The columns of values: a label, the figure, its text, how a group joins them, and where they are left out. */
const FIGURES = [
  ['Deviation', (entry) => entry.deviation, number, 'most', ''],
  ['Least', (entry) => entry.min?.value ?? null, number, 'least', 'hide-s'],
  ['Largest', (entry) => entry.max?.value ?? null, number, 'most', ''],
  ['Zeros', (entry) => (entry.elements > 0 ? entry.zeros / entry.elements : null), percent, 'most', 'hide-m'],
  ['Outliers', (entry) => entry.outliers, whole, 'sum', 'hide-s'],
  ['NaN, ∞', (entry) => entry.nan + entry.infinite, whole, 'sum', 'hide-m'],
];

/** The rows by layer, in the order of the layers. */
function groupsOf(rows) {
  const groups = new Map();
  for (const row of rows) {
    const layer = layerOf(row.canonical ?? row.stored);
    const key = layer ? `${layer.stack}.${layer.layer}` : '';
    if (!groups.has(key)) groups.set(key, { group: true, key, label: layer ? layerName(layer) : 'outside the layers', layer: layer?.layer ?? -1, stack: layer?.stack ?? '', members: [], bytes: 0 });
    const group = groups.get(key);
    group.members.push(row);
    group.bytes += row.bytes;
  }
  return [...groups.values()].sort((a, b) => a.stack.localeCompare(b.stack) || a.layer - b.layer);
}

class Tensors {
  constructor({ model, list, query, signal }, rows) {
    Object.assign(this, { model, query, signal, rows, path: list[model].path, values: null, open: new Set(), grouped: query.fold === '1', chosen: [] });
    this.most = Math.max(...rows.slice(0, 5000).map((row) => row.bytes), 1);
    this.place = h('div', {});
    this.status = h('p', { class: 'muted small num', role: 'status' });
    this.progress = h('div', { class: 'busy', hidden: true }, h('progress', { max: 1, value: 0, 'aria-label': 'Statistics' }), h('span', {}));
    let pause = 0;
    this.search = h('input', { type: 'search', placeholder: 'Filter: name, dtype, kind', 'aria-label': 'Filter tensors', value: query.filter ?? '', spellcheck: 'false', autocomplete: 'off',
      oninput: () => { clearTimeout(pause); pause = setTimeout(() => { keep({ filter: this.search.value.trim() }); this.fill(); }, rows.length > 5000 ? 120 : 0); } });
    this.build();
  }

  /** A figure of the values of a row, or of those of a group; null if it is not known. */
  figure(row, get, join) {
    const single = (one) => { const entry = this.values?.found[one.at]; return entry && entry.mean !== undefined ? get(entry) : null; };
    if (!row.group) return single(row);
    const all = row.members.map(single).filter((one) => one !== null);
    return all.length > 0 ? TOGETHER[join](all) : null;
  }

  figures() {
    const cell = (row, get, format, join) => {
      const value = this.figure(row, get, join);
      if (value === null) return this.values?.found[row.at]?.reason ? 'unread' : '';
      return format(value);
    };
    return FIGURES.map(([label, get, format, join, hide]) => ({ label, width: '84px', narrow: '76px', right: true, hide, most: true,
      sort: (row) => this.figure(row, get, join), cell: (row) => cell(row, get, format, join) }));
  }

  /** The first cell: a link to the tensor, or a button that unfolds a group. */
  first(row) {
    if (!row.group) return h('a', { href: link(this.model, 'tensor', row.stored) }, shortName(row.stored));
    const isOpen = this.open.has(row.key);
    return h('button', { type: 'button', 'aria-expanded': String(isOpen), onclick: () => this.toggle(row) },
      h('span', { class: isOpen ? 'fold open' : 'fold', 'aria-hidden': 'true' }, '›'), name(row.label, 80), h('span', { class: 'muted hide-s' }, plural(row.members.length, 'tensor')));
  }

  toggle(group) {
    if (!this.open.delete(group.key)) this.open.add(group.key);
    this.fill(true);
  }

  columns() {
    const leaf = (get) => (row) => (row.group ? '' : get(row));
    const stored = { label: 'Stored name', width: 'minmax(124px, 1.4fr)', narrow: 'minmax(110px, 1fr)', wraps: true, sort: (row) => row.stored ?? '', cell: (row) => this.first(row) };
    const dtype = { label: 'Dtype', width: '104px', narrow: '56px', sort: (row) => row.dtype ?? '', cell: leaf((row) => shown(row.dtype, 30)) };
    const dims = { label: 'Shape', width: '124px', right: true, hide: 'hide-s', most: true, sort: (row) => row.elements, cell: leaf((row) => shape(row.shape)) };
    if (this.query.values === '1') return [{ ...stored, width: 'minmax(150px, 1.4fr)' }, { ...dtype, width: '76px', hide: 'hide-s' }, { ...dims, hide: 'hide-m' }, ...this.figures()];
    return [
      stored,
      { label: 'Canonical name', width: 'minmax(150px, 1.2fr)', hide: this.rows.some((row) => row.canonical) ? 'hide-m' : 'gone', sort: (row) => row.canonical ?? null, cell: leaf((row) => h('span', { class: 'canon' }, row.canonical ? shortName(row.canonical) : '–')) },
      dtype, dims,
      { label: 'Bits', width: '54px', right: true, hide: 'hide-m', most: true, sort: (row) => row.bits ?? null, cell: leaf((row) => bits(row.bits)) },
      { label: 'Size', width: '88px', narrow: '80px', right: true, most: true, sort: (row) => row.bytes, cell: (row) => bytes(row.bytes) },
      { label: 'Share', width: '72px', hide: 'hide-m', cell: leaf((row) => h('span', { class: 'bar', vars: { '--w': `${(row.bytes / this.most) * 100}%` }, 'aria-hidden': 'true' })) },
    ];
  }

  /** Makes the table with the columns that are chosen. */
  build() {
    this.table = new Table({
      label: 'Tensors', rows: [], height: 'calc(100vh - 260px)', columns: this.columns(),
      onsort: (sort) => { keep({ sort }); this.query.sort = sort; },
      open: (row) => { if (row.group) this.toggle(row); else location.hash = link(this.model, 'tensor', row.stored); },
      decorate: (node, row) => {
        if (row.group) node.classList.add('group');
        else if (this.grouped) node.classList.add('child');
      },
      hint: (row) => shown(row.group ? 'The least or the largest of its tensors, and the sum of their outliers' : row.stored, 400),
      empty: this.rows.length === 0 ? 'The model has no tensors.' : 'No name, dtype or kind matches.',
    });
    this.table.sortAs(this.query.sort);
    this.place.replaceChildren(this.table.node);
    this.fill();
    if (this.query.values === '1') this.follow();
  }

  /** Shows the rows that match the filter; `stay` keeps the place. */
  fill(stay = false) {
    const { rows, table } = this;
    const text = this.search.value.trim();
    this.chosen = text === '' ? rows : rows.filter(matcher(text, filtered));
    const sum = (get) => this.chosen.reduce((all, row) => all + get(row), 0);
    this.status.textContent = `${whole(this.chosen.length)}${this.chosen.length < rows.length ? ` of ${whole(rows.length)}` : ''} tensors, ${count(sum((row) => row.elements))} weights, ${bytes(sum((row) => row.bytes))}`;
    const top = table.box.scrollTop;
    table.show(this.grouped ? this.folded(text !== '') : this.chosen);
    if (stay) { table.box.scrollTop = top; table.draw(); }
  }

  /** The groups, each with its tensors if it is open. A search opens the groups in which it finds few. */
  folded(searching) {
    const groups = groupsOf(this.chosen);
    if (searching && this.chosen.length < 500) for (const group of groups) this.open.add(group.key);
    return groups.flatMap((group) => (this.open.has(group.key) ? [group, ...group.members] : [group]));
  }

  /** Reads the values of all tensors, and shows those that are known. */
  follow() {
    const total = this.rows.length;
    this.values = statisticsOf(this.model, total);
    this.values.listen((state) => {
      const [meter, text] = this.progress.children;
      this.progress.hidden = state.done;
      meter.value = state.found.length / Math.max(1, total);
      const unread = state.found.filter((entry) => entry?.reason).length;
      if (unread > 0) this.status.textContent = `${whole(unread)} of ${whole(total)} tensors cannot be read`;
      text.textContent = state.error ? state.error.message : `${whole(state.found.length)} of ${whole(total)} tensors read`;
      if (state.done || state.found.length < 2000 || state.found.length % 2048 < 256) this.table.refresh();
    }, this.signal);
  }

  csv() {
    const heads = ['stored', 'canonical', 'dtype', 'shape', 'bits', 'bytes', 'min', 'max', 'mean', 'deviation', 'zeros', 'outliers', 'nan', 'infinite'];
    take.csv(`${base(this.path)} tensors`, heads, this.chosen.map((row) => {
      const entry = this.values?.found[row.at];
      return [row.stored, row.canonical, row.dtype, row.shape.join('x'), row.bits, row.bytes, entry?.min?.value, entry?.max?.value, entry?.mean, entry?.deviation, entry?.zeros, entry?.outliers, entry?.nan, entry?.infinite];
    }));
  }

  nodes() {
    const { query, path } = this;
    const tools = h('div', { class: 'tools' }, this.search,
      segments('Columns', [['', 'Bytes'], ['1', 'Values']], query.values ?? '', (value) => { query.values = value; keep({ values: value }); this.build(); }),
      segments('Arrangement', [['', 'List'], ['1', 'By layer']], query.fold ?? '', (value) => { this.grouped = value === '1'; keep({ fold: value }); this.fill(); }),
      take.button('CSV', () => this.csv(), 'Save the rows shown'));
    return [head('Tensors', { crumb: name(base(path), 80), sub: this.status, tools }), this.place, this.progress, take.command(`weighbridge inspect ${quoted(path)} ${query.values === '1' ? '--stats' : '--all'}`)];
  }
}

export async function show(at) {
  const rows = rowsOf(await tensors(at.model));
  return { title: 'Tensors', nodes: new Tensors(at, rows).nodes() };
}
