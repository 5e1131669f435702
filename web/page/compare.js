// Two models: what differs, tensor by tensor.

import { facts, h, head, name, notice, section, segments, shortName, shown, trouble } from './dom.js';
import { bars, columns } from './charts.js';
import { bytes, number, parsed, percent, plural, quoted, shape, whole } from './format.js';
import { isSpoiled, pairRows, relativeOf, relativeText, together, worstTensors } from './differences.js';
import { differencesOf, keep, KINDS, kindOf, kindFilter, labelsOf, layerName, layerOf, link, matcher, pairsOf, stackName } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

const OUTCOMES = { identical: 'identical', shapes: 'other shape', unread: 'not read' };

/** The milliseconds between two pictures of a comparison that goes on. */
const PAUSE = 500;

/** The groups of tensors: the key of a row, the filter that shows the group, and its place among the others. */
const GROUPS = {
  layer: (row) => {
    const layer = layerOf(row.name);
    if (!layer) return { key: 'outside the layers', filter: null, order: -1, label: '–' };
    return { key: layerName(layer), filter: `${layer.stack ? `${layer.stack}.` : ''}${layer.layer}.`, order: layer.layer, label: String(layer.layer), start: stackName(layer) };
  },
  kind: (row) => { const key = KINDS[kindOf(row.name)]; return { key, filter: kindFilter(key) }; },
  dtype: (row) => ({ key: row.b, filter: `dtype:${row.b.split(' ')[0]}` }),
};

/** The dtypes of some rows in B, the most frequent by size first. */
function dtypesOf(rows) {
  const sizes = new Map();
  for (const row of rows) sizes.set(row.b, (sizes.get(row.b) ?? 0) + row.elements);
  const sorted = [...sizes].sort((x, y) => y[1] - x[1]).map(([dtype]) => shown(dtype, 20));
  return sorted.length > 3 ? `${sorted.slice(0, 3).join(', ')} and ${sorted.length - 3} more` : sorted.join(', ');
}

/** The choices of A and of B. */
function choices({ a, b, list }) {
  const labels = labelsOf(list).map((label) => shown(label, 60));
  const choice = (letter, chosen, to) => h('label', { class: 'field' }, letter, h('select', { onchange: (event) => { location.hash = to(event.target.value); } },
    labels.map((text, which) => h('option', { value: which, selected: which === chosen }, text))));
  return [choice('A', a, (which) => link('compare', which, b)), choice('B', b, (which) => link('compare', a, which))];
}

class Comparison {
  constructor({ a, b, list, query, signal }, table) {
    Object.assign(this, { a, b, list, query, signal, table, rows: pairRows(table), drawn: 0 });
    this.total = this.rows.length;
    this.state = differencesOf(a, b, this.total);
    this.labels = labelsOf(list).map((label) => shown(label, 60));
    this.by = Object.hasOwn(GROUPS, query.by ?? '') ? query.by : 'layer';
    this.meter = h('progress', { max: 1, value: 0, 'aria-label': 'Comparison' });
    this.status = h('span', { class: 'num', role: 'status' });
    [this.faults, this.numbers, this.groups, this.worst] = [h('div', { class: 'notices' }), h('div', {}), h('div', {}), h('div', {})];
    this.view = this.tensors();
    this.view.sortAs(query.sort);
    this.search = h('input', { type: 'search', placeholder: 'Filter: name, kind', 'aria-label': 'Filter tensors', value: query.filter ?? '', spellcheck: 'false',
      oninput: () => { keep({ filter: this.search.value.trim() }); this.fill(); } });
    this.fill();
    this.state.listen(() => this.update(), signal);
  }

  found(row) { return this.state.found[row.pair]; }

  /** The table of the tensors of both models. */
  tensors() {
    const { a, b } = this;
    const address = (row) => link('compare', a, b, row.name);
    const values = (row) => { const entry = this.found(row); return entry?.outcome === 'values' ? entry : null; };
    const figure = (label, width, hide, get, format) => ({
      label, width, right: true, hide, most: label !== 'Cosine',
      sort: (row) => { const entry = values(row); return entry && parsed(get(entry)); },
      cell: (row) => { const entry = values(row); return entry ? format(get(entry)) : ''; },
    });
    const error = (row) => { const entry = this.found(row); return entry ? OUTCOMES[entry.outcome] ?? relativeText(entry) : ''; };
    return new Table({
      label: 'Tensors of both models', rows: this.rows, height: '64vh', empty: 'No name matches.',
      columns: [
        { label: 'Tensor', width: 'minmax(124px, 1.3fr)', wraps: true, sort: (row) => row.name, cell: (row) => h('a', { href: address(row) }, shortName(row.name)) },
        { label: 'A', width: '92px', hide: 'hide-m', sort: (row) => row.a, cell: (row) => shown(row.a, 24) },
        { label: 'B', width: '92px', hide: 'hide-s', sort: (row) => row.b, cell: (row) => shown(row.b, 24) },
        { label: 'Shape', width: '116px', right: true, hide: 'hide-m', most: true, sort: (row) => row.elements, cell: (row) => shape(row.shape) },
        { label: 'Relative RMS', width: '104px', right: true, most: true, sort: (row) => relativeOf(this.found(row)), cell: error },
        figure('Cosine', '92px', 'hide-s', (entry) => entry.cosine, (cosine) => (cosine === null ? '–' : cosine.toFixed(7))),
        figure('Largest', '92px', 'hide-s', (entry) => entry.max_difference, number),
        figure('Differ', '88px', 'hide-m', (entry) => entry.differing / entry.elements, percent),
      ],
      sorted: 4, descending: true, onsort: (sort) => keep({ sort }),
      open: (row) => { location.hash = address(row); },
      hint: (row) => shown(this.found(row)?.reason ?? row.name, 300),
    });
  }

  fill() {
    this.view.show(this.rows.filter(matcher(this.search.value, (row) => ({ text: `${row.name} ${row.a} ${row.b}`, dtypes: [row.b], name: row.name }))));
  }

  /** Shows what has been compared so far. */
  update() {
    const { state, total } = this;
    this.meter.value = state.found.length / Math.max(1, total);
    this.meter.hidden = state.done;
    this.faults.replaceChildren(...[state.error && trouble(state.error)].filter(Boolean));
    this.status.textContent = state.done ? `${whole(total)} pairs compared` : `${whole(state.found.length)} of ${whole(total)} pairs compared`;
    const now = performance.now();
    if (!state.done && now - this.drawn < PAUSE) return;
    this.drawn = now;
    this.drawNumbers();
    this.view.refresh();
    this.drawGroups();
    if (!state.done) return;
    const { a, b, labels, rows, signal } = this;
    this.worst.replaceChildren(worstTensors({ a, b, labels, rows, differences: state.found, signal }));
  }

  /** Shows the numbers of the whole comparison. */
  drawNumbers() {
    const { state, list, table } = this;
    const count = (outcome) => state.found.filter((entry) => entry.outcome === outcome).length;
    const equal = state.found.filter((entry) => entry.outcome === 'values' && entry.differing === 0).length;
    const identical = count('identical');
    const spoiled = state.found.filter(isSpoiled).length;
    const differing = count('values') - equal + count('shapes');
    const { error, matrices } = together(this.rows, state.found);
    this.numbers.replaceChildren(facts([
      ['Relative RMS', percent(error), matrices > 0 ? `mean over ${plural(matrices, 'matrix', 'matrices')}, weighted by size` : 'no matrix has the same shape in both'],
      ['NaN or infinite', spoiled > 0 ? plural(spoiled, 'tensor') : null, 'in one model alone'],
      ['Tensors that differ', whole(differing), state.done ? `of ${whole(this.total)}` : `of ${whole(state.found.length)} compared so far`],
      ['Equal', whole(equal + identical), `${identical > 0 && equal > 0 ? `${whole(identical)} of them` : identical > 0 ? 'all' : 'none'} with the same bytes`],
      ['Size of A', bytes(list[this.a].file_bytes)],
      ['Size of B', bytes(list[this.b].file_bytes)],
      ['Only in A, only in B', `${whole(table.only_a.length)}, ${whole(table.only_b.length)}`],
    ]));
  }

  /** The groups of tensors whose error is known. */
  byGroup() {
    const groups = new Map();
    for (const row of this.rows) {
      const group = GROUPS[this.by](row);
      if (!groups.has(group.key)) groups.set(group.key, { ...group, rows: [] });
      groups.get(group.key).rows.push(row);
    }
    const errors = [...groups.values()].map((group) => ({ ...group, value: together(group.rows, this.state.found).error, dtypes: dtypesOf(group.rows),
      href: link('compare', this.a, this.b, { filter: group.filter, by: this.by, sort: this.query.sort }) }));
    return errors.filter((group) => group.value !== null).sort(this.by === 'layer' ? (x, y) => (x.start ?? '').localeCompare(y.start ?? '') || x.order - y.order : (x, y) => y.value - x.value);
  }

  drawGroups() {
    const groups = this.byGroup();
    if (groups.every((group) => group.value === 0)) { this.groups.replaceChildren(); return; }
    const picture = this.by === 'layer'
      ? columns(groups.map(({ label, start, key, dtypes, href, value }) => ({ label, start, title: `${key}, ${dtypes}`, href, parts: [value] })), percent, { label: 'Relative RMS by layer' })
      : bars(groups.map(({ key, dtypes, href, value, rows }) => ({ label: key, note: `${dtypes}, ${plural(rows.length, 'tensor')}`, value, href })), percent, { label: `Relative RMS by ${this.by}` });
    const choice = segments('Groups', [['layer', 'By layer'], ['kind', 'By kind'], ['dtype', 'By dtype']], this.by, (chosen) => {
      this.by = chosen;
      keep({ by: chosen === 'layer' ? null : chosen });
      this.drawGroups();
    });
    this.groups.replaceChildren(section('Where it hurts', 'Mean relative RMS of matrices, weighted by size. A bar shows its tensors.', choice, picture));
  }

  csv() {
    const heads = ['tensor', 'dtype A', 'dtype B', 'shape', 'outcome', 'relative RMS', 'cosine', 'largest difference', 'differing', 'elements'];
    const line = (row) => {
      const entry = this.found(row);
      return [row.name, row.a, row.b, row.shape.join('x'), entry?.outcome, entry?.relative_rms, entry?.cosine, entry?.max_difference, entry?.differing, row.elements];
    };
    take.csv(`${this.labels[this.a]} against ${this.labels[this.b]}`, heads, this.view.rows.map(line));
  }

  nodes() {
    const { a, b, list, table } = this;
    const only = (which, names) => names.length > 0 && section(`Only in ${which}`, plural(names.length, 'tensor'), null,
      new Table({ label: `Only in ${which}`, rows: names, height: '300px', columns: [{ label: 'Tensor', sort: (row) => row, cell: (row) => name(row, 200) }] }).node);
    return [
      head('Compare', { crumb: 'Tensors are matched by canonical name', sub: [this.status, this.meter, list.length > 2 && h('a', { href: link('compare', a, 'all') }, `all ${list.length} models`)],
        tools: choices(this) }),
      a === b && h('div', { class: 'notices' }, notice('Note', 'A and B are the same model.')),
      table.notes.length > 0 && h('div', { class: 'notices', vars: { 'margin-bottom': '20px' } }, table.notes.map((text) => notice('Note', text))),
      this.faults, this.numbers, h('section', {}, this.groups),
      section('Tensors', null, [this.search, take.button('CSV', () => this.csv(), 'Save the rows shown')], this.view.node),
      this.worst,
      only('A', table.only_a), only('B', table.only_b),
      take.command(`weighbridge diff ${quoted(list[a].path)} ${quoted(list[b].path)} --all`),
    ].filter(Boolean);
  }
}

export async function show(at) {
  let table;
  try {
    table = await pairsOf(at.a, at.b);
  } catch (error) {
    if (error.kind === 'ended') throw error;
    // Others may be chosen.
    return { title: 'Compare', nodes: [head('Compare', { tools: choices(at) }), h('div', { class: 'notices' }, trouble(error))] };
  }
  return { title: 'Compare', nodes: new Comparison(at, table).nodes() };
}
