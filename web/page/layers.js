// A statistic over depth, one small chart for each kind of tensor: the odd layer stands out.

import { h, head, name, notice, section, segments, shortName, shown, trouble } from './dom.js';
import { depth, outliers, spread } from './charts.js';
import { base, number, percent, plural, quoted, whole } from './format.js';
import { keep, layerOf, link, statisticsOf, tensors } from './state.js';
import { Table } from './table.js';
import { rowsOf } from './tensors.js';
import * as take from './take.js';

const STATISTICS = [
  ['deviation', 'Deviation', (entry) => entry.deviation, number],
  ['largest', 'Largest magnitude', (entry) => (entry.min ? Math.max(Math.abs(entry.min.value), Math.abs(entry.max.value)) : null), number],
  ['mean', 'Mean', (entry) => entry.mean, number],
  ['outliers', 'Outliers', (entry) => entry.outliers / Math.max(1, entry.elements), percent],
  ['zeros', 'Zeros', (entry) => entry.zeros / Math.max(1, entry.elements), percent],
  ['bits', 'Bits per weight', (entry) => entry.bits_per_weight, (value) => String(Number(value.toFixed(2)))],
];

/** The most kinds of tensors that have a chart. */
const CHARTS = 64;

/** The tensors that differ only in the number of their layer. Experts of a layer share a kind. */
function kindsOf(rows) {
  const kinds = new Map();
  for (const row of rows) {
    const layer = layerOf(row.canonical ?? row.stored);
    if (!layer) continue;
    const rest = layer.rest.replace(/(^|\.)\d+(?=\.)/g, '$1{e}');
    const key = `${layer.stack ? `${layer.stack}.` : ''}{n}.${rest}`;
    if (!kinds.has(key)) kinds.set(key, { rest, stack: layer.stack, rows: [] });
    kinds.get(key).rows.push({ ...row, layer: layer.layer });
  }
  return [...kinds.values()].filter((kind) => kind.rows.length > 1);
}

class Layers {
  constructor({ model, list, query, signal }, rows) {
    Object.assign(this, { model, rows, path: list[model].path, drawn: 0, all: kindsOf(rows) });
    this.kinds = this.all.slice(0, CHARTS);
    this.chosen = STATISTICS.find(([key]) => key === query.statistic) ?? STATISTICS[0];
    this.place = h('div', { class: 'multiples' });
    this.status = h('p', { class: 'num', role: 'status' }, '');
    this.meter = h('progress', { max: 1, value: 0, hidden: this.kinds.length === 0, 'aria-label': 'Statistics' });
    this.odd = h('div', {});
    this.faults = h('div', { class: 'notices', role: 'region', 'aria-label': 'What could not be read' });
    this.values = statisticsOf(model, rows.length);
    if (this.kinds.length > 0) this.values.listen((state) => this.update(state), signal);
    else this.place.replaceChildren(h('p', { class: 'muted' }, 'No names of tensors differ only in the number of a layer.'));
  }

  update(state) {
    const { rows } = this;
    this.meter.value = state.found.length / Math.max(1, rows.length);
    this.meter.hidden = state.done;
    const unread = state.found.map((entry, at) => [entry, rows[at]]).filter(([entry]) => entry?.reason);
    const broken = state.found.map((entry, at) => [entry, rows[at]]).filter(([entry]) => entry?.nan + entry?.infinite > 0);
    this.faults.replaceChildren(...[state.error && trouble(state.error),
      unread.length > 0 && notice('Error', `${plural(unread.length, 'tensor')} cannot be read; the others are shown`, `${unread[0][1].stored}: ${unread[0][0].reason}`),
      broken.length > 0 && notice('Note', `${plural(broken.length, 'tensor')} with NaN or infinities; the statistics are those of the other values`, broken.slice(0, 3).map(([, row]) => row.stored).join(', '))].filter(Boolean));
    this.status.textContent = state.done ? `${whole(rows.length)} tensors` : `${whole(state.found.length)} of ${whole(rows.length)} tensors read`;
    this.draw(state.done);
  }

  /** The chosen statistic of a tensor; null if it is not known. */
  statistic(row) {
    if (this.chosen[0] === 'bits') return row.bits;
    const entry = this.values.found[row.at];
    return entry && entry.mean !== undefined ? this.chosen[2](entry) : null;
  }

  /** Why a tensor has no statistic. */
  missing(row) {
    const entry = this.values.found[row.at];
    if (entry?.reason) return 'not readable';
    return entry ? 'no value is finite' : 'not read yet';
  }

  /** The tensors of a kind as points, by layer. */
  points(kind) {
    const text = (row, value) => value === null ? this.missing(row) : this.chosen[3](value);
    return kind.rows.map((row) => {
      const value = this.statistic(row);
      return { layer: row.layer, value: value ?? NaN, row, href: link(this.model, 'tensor', row.stored), title: `${shown(row.stored, 120)}: ${text(row, value)}` };
    }).sort((a, b) => a.layer - b.layer);
  }

  chart(kind, points) {
    const [, label, , format] = this.chosen;
    const known = points.some((point) => Number.isFinite(point.value));
    const title = this.all.length > 1 && kind.stack !== 'layers' ? `${kind.stack} · ${kind.rest}` : kind.rest;
    return h('figure', {}, h('h2', { title: shown(kind.rest, 200) }, shortName(title)),
      known && h('p', { class: 'muted small num' }, spread(points.map((point) => point.value), format)),
      known ? depth(points, { format, label: `${label} of ${shown(kind.rest, 80)} by layer` }) : h('p', { class: 'muted small' }, 'not read yet'));
  }

  /** Draws the charts, at most every 400 ms unless `force` is given. */
  draw(force) {
    const now = performance.now();
    if (!force && now - this.drawn < 400) return;
    this.drawn = now;
    const drawn = this.kinds.map((kind) => [kind, this.points(kind)]);
    this.place.replaceChildren(...drawn.map(([kind, points]) => this.chart(kind, points)));
    this.drawOdd(drawn.flatMap(([, points]) => [...outliers(points.map((point) => point.value))].map((at) => points[at])));
  }

  /** Lists the layers far from the others. */
  drawOdd(strange) {
    const [, label, , format] = this.chosen;
    const table = strange.length > 0 && new Table({
      label: 'Layers far from the others', rows: strange, height: '360px',
      columns: [
        { label: 'Tensor', width: 'minmax(190px, 1fr)', narrow: 'minmax(110px, 1fr)', wraps: true, sort: (point) => point.row.stored, cell: (point) => h('a', { href: point.href }, shortName(point.row.stored)) },
        { label: 'Layer', width: '70px', hide: 'hide-s', right: true, sort: (point) => point.layer, cell: (point) => String(point.layer) },
        { label, width: '150px', narrow: '130px', right: true, most: true, sort: (point) => point.value, cell: (point) => format(point.value) },
      ],
    });
    this.odd.replaceChildren(section('Far from the others', 'More than five times the median distance from the median of all layers', null,
      table ? table.node : h('p', { class: 'muted' }, this.values.done ? 'No layer stands out.' : this.values.error ? 'Not known.' : 'None so far.')));
  }

  csv() {
    const lines = this.kinds.flatMap((kind) => kind.rows.map((row) => [row.stored, kind.rest, row.layer, this.statistic(row)]));
    take.csv(`${base(this.path)} layers ${this.chosen[0]}`, ['tensor', 'kind', 'layer', this.chosen[1]], lines);
  }

  nodes() {
    const choice = segments('Statistic', STATISTICS.map(([key, label]) => [key, label]), this.chosen[0], (key) => {
      this.chosen = STATISTICS.find(([known]) => known === key);
      keep({ statistic: key });
      this.draw(true);
    });
    return [
      head('Layers', { crumb: name(base(this.path), 80), sub: [this.status, this.meter], tools: take.button('CSV', () => this.csv(), 'Save the numbers') }),
      h('div', { class: 'scroll', vars: { 'margin-bottom': '28px' } }, choice),
      this.faults,
      h('div', { class: 'panel' }, this.place),
      this.all.length > CHARTS && h('p', { class: 'muted small' }, `The first ${CHARTS} of ${whole(this.all.length)} kinds of tensors are shown.`),
      this.odd,
      take.command(`weighbridge inspect ${quoted(this.path)} --stats`),
    ].filter(Boolean);
  }
}

export async function show(at) {
  const rows = rowsOf(await tensors(at.model));
  return { title: 'Layers', nodes: new Layers(at, rows).nodes() };
}
