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

export async function show({ model, list, query, signal }) {
  const rows = rowsOf(await tensors(model));
  const path = list[model].path;
  const kinds = new Map();
  for (const row of rows) {
    const layer = layerOf(row.canonical ?? row.stored);
    if (!layer) continue;
    // Experts of a layer share a chart.
    const rest = layer.rest.replace(/(^|\.)\d+(?=\.)/g, '$1{e}');
    const key = `${layer.stack ? `${layer.stack}.` : ''}{n}.${rest}`;
    if (!kinds.has(key)) kinds.set(key, { rest, stack: layer.stack, rows: [] });
    kinds.get(key).rows.push({ ...row, layer: layer.layer });
  }
  const allKinds = [...kinds.values()].filter((kind) => kind.rows.length > 1);
  const shownKinds = allKinds.slice(0, 64);
  const place = h('div', { class: 'multiples' });
  const status = h('p', { class: 'num', role: 'status' }, '');
  const meter = h('progress', { max: 1, value: 0, hidden: shownKinds.length === 0, 'aria-label': 'Statistics' });
  const odd = h('div', {});
  const faults = h('div', { class: 'notices', role: 'region', 'aria-label': 'What could not be read' });
  let chosen = STATISTICS.find(([key]) => key === query.statistic) ?? STATISTICS[0];
  const values = statisticsOf(model, rows.length);
  let drawn = 0;

  const draw = (force) => {
    const now = performance.now();
    if (!force && now - drawn < 400) return;
    drawn = now;
    const [, label, get, format] = chosen;
    const strange = [];
    const charts = shownKinds.map((kind) => {
      const points = kind.rows.map((row) => {
        const entry = values.found[row.at];
        const value = chosen[0] === 'bits' ? row.bits : entry && entry.mean !== undefined ? get(entry) : null;
        return { layer: row.layer, value: value ?? NaN, row, href: link(model, 'tensor', row.stored), title: `${shown(row.stored, 120)}: ${value === null ? (entry?.reason ? 'not readable' : 'not read yet') : format(value)}` };
      }).sort((a, b) => a.layer - b.layer);
      for (const at of outliers(points.map((point) => point.value))) strange.push({ ...points[at], kind: kind.rest });
      const known = points.some((point) => Number.isFinite(point.value));
      return h('figure', {}, h('h2', { title: shown(kind.rest, 200) }, shortName(kinds.size > 1 && kind.stack !== 'layers' ? `${kind.stack} · ${kind.rest}` : kind.rest, 34)),
        known && h('p', { class: 'muted small num' }, spread(points.map((point) => point.value), format)),
        known ? depth(points, { format, label: `${label} of ${shown(kind.rest, 80)} by layer` }) : h('p', { class: 'muted small' }, 'not read yet'));
    });
    place.replaceChildren(...charts);
    const table = strange.length > 0 && new Table({
      label: 'Layers far from the others', rows: strange, height: '360px',
      columns: [
        { label: 'Tensor', width: 'minmax(190px, 1fr)', sort: (point) => point.row.stored, cell: (point) => h('a', { href: point.href }, name(point.row.stored, 160)) },
        { label: 'Layer', width: '70px', right: true, sort: (point) => point.layer, cell: (point) => String(point.layer) },
        { label, width: '150px', right: true, most: true, sort: (point) => point.value, cell: (point) => format(point.value) },
      ],
    });
    odd.replaceChildren(section('Far from the others', 'More than five times the median distance from the median of all layers', null,
      table ? table.node : h('p', { class: 'muted' }, values.done ? 'No layer stands out.' : 'None so far.')));
  };
  const tools = segments('Statistic', STATISTICS.map(([key, label]) => [key, label]), chosen[0], (key) => {
    chosen = STATISTICS.find(([known]) => known === key);
    keep({ statistic: key });
    draw(true);
  });
  const csv = () => take.csv(`${base(path)} layers ${chosen[0]}`, ['tensor', 'kind', 'layer', chosen[1]], shownKinds.flatMap((kind) => kind.rows.map((row) => {
    const entry = values.found[row.at];
    return [row.stored, kind.rest, row.layer, chosen[0] === 'bits' ? row.bits : entry && entry.mean !== undefined ? chosen[2](entry) : null];
  })));
  if (shownKinds.length > 0) {
    values.listen((state) => {
      meter.value = state.found.length / Math.max(1, rows.length);
      meter.hidden = state.done;
      const unread = state.found.map((entry, at) => [entry, rows[at]]).filter(([entry]) => entry?.reason);
      faults.replaceChildren(...[state.error && trouble(state.error),
        unread.length > 0 && notice('Error', `${plural(unread.length, 'tensor')} cannot be read; the others are shown`, `${unread[0][1].stored}: ${unread[0][0].reason}`)].filter(Boolean));
      status.textContent = state.done ? `${whole(rows.length)} tensors` : `${whole(state.found.length)} of ${whole(rows.length)} tensors read`;
      draw(state.done);
    }, signal);
  } else {
    place.replaceChildren(h('p', { class: 'muted' }, 'No names of tensors differ only in the number of a layer.'));
  }
  return {
    title: 'Layers',
    nodes: [
      head('Layers', { crumb: name(base(path), 80), sub: [status, meter], tools: take.button('CSV', csv, 'Save the numbers') }),
      h('div', { class: 'scroll', vars: { 'margin-bottom': '28px' } }, tools),
      faults,
      h('div', { class: 'panel' }, place),
      allKinds.length > shownKinds.length && h('p', { class: 'muted small' }, `The first ${shownKinds.length} of ${whole(allKinds.length)} kinds of tensors are shown.`),
      odd,
      take.command(`weighbridge inspect ${quoted(path)} --stats`),
    ].filter(Boolean),
  };
}
