// Two models: what differs, tensor by tensor; and several quantizations against one original.

import { facts, h, head, name, notice, section, segments, shown } from './dom.js';
import { columns, scatter } from './charts.js';
import { base, bytes, elements, number, parsed, percent, plural, quoted, shape, whole } from './format.js';
import { differencesOf, keep, KINDS, kindOf, layerOf, link, pairsOf } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

/** The error of several tensors, as `diff` computes it: the mean over the matrices among them, weighted by size. */
function together(rows, differences) {
  const matrices = rows.filter((row) => differences[row.pair]?.matrix_error !== undefined);
  const size = matrices.reduce((sum, row) => sum + row.elements, 0);
  const sum = matrices.reduce((sum, row) => sum + differences[row.pair].matrix_error * row.elements, 0);
  return { error: size > 0 ? sum / size : null, matrices: matrices.length };
}

/** The relative RMS of a pair, or null if its values were not compared. */
export function relativeOf(found) {
  if (!found) return null;
  if (found.outcome === 'identical') return 0;
  return found.outcome === 'values' ? parsed(found.relative_rms) : null;
}

const OUTCOMES = { identical: 'identical', shapes: 'shape', unread: 'not read' };

export async function show({ a, b, list, query, signal }) {
  const table = await pairsOf(a, b);
  const total = table.name.length;
  const rows = table.name.map((pair, at) => ({ pair: at, name: pair, shape: table.shape[at], elements: elements(table.shape[at]), a: table.dtypes[table.dtype_a[at]], b: table.dtypes[table.dtype_b[at]], bytesA: table.bytes_a[at], bytesB: table.bytes_b[at] }));
  const state = differencesOf(a, b, total);
  const found = (row) => state.found[row.pair];
  const labels = list.map((model) => shown(base(model.path), 60));
  const choose = (label, chosen, to) => h('label', { class: 'field' }, label, h('select', { onchange: (event) => { location.hash = to(event.target.value); } },
    labels.map((text, which) => h('option', { value: which, selected: which === chosen }, text))));
  const value = (get) => (row) => { const entry = found(row); return entry?.outcome === 'values' ? parsed(get(entry)) : null; };
  const cell = (get, format) => (row) => {
    const entry = found(row);
    if (!entry) return '';
    return entry.outcome === 'values' ? format(get(entry)) : '';
  };
  const view = new Table({
    label: 'Tensors of both models', rows, height: '64vh', empty: 'No name matches.',
    columns: [
      { label: 'Tensor', width: 'minmax(124px, 1.3fr)', sort: (row) => row.name, cell: (row) => h('a', { href: link('compare', a, b, row.name) }, name(row.name, 160)) },
      { label: 'A', width: '92px', hide: 'hide-m', sort: (row) => row.a, cell: (row) => shown(row.a, 24) },
      { label: 'B', width: '92px', hide: 'hide-s', sort: (row) => row.b, cell: (row) => shown(row.b, 24) },
      { label: 'Shape', width: '116px', right: true, hide: 'hide-m', most: true, sort: (row) => row.elements, cell: (row) => shape(row.shape) },
      { label: 'Relative RMS', width: '104px', right: true, most: true, sort: (row) => relativeOf(found(row)), cell: (row) => { const entry = found(row); return entry ? OUTCOMES[entry.outcome] ?? percent(entry.relative_rms) : ''; } },
      { label: 'Cosine', width: '92px', right: true, hide: 'hide-s', sort: value((entry) => entry.cosine), cell: cell((entry) => entry.cosine, (cosine) => (cosine === null ? '–' : cosine.toFixed(7))) },
      { label: 'Largest', width: '92px', right: true, hide: 'hide-s', most: true, sort: value((entry) => entry.max_difference), cell: cell((entry) => entry.max_difference, number) },
      { label: 'Differ', width: '88px', right: true, hide: 'hide-m', most: true, sort: value((entry) => entry.differing / entry.elements), cell: cell((entry) => entry.differing / entry.elements, percent) },
    ],
    sorted: 4, descending: true,
    open: (row) => { location.hash = link('compare', a, b, row.name); },
    hint: (row) => (found(row)?.reason ? shown(found(row).reason, 300) : shown(row.name, 300)),
  });
  const search = h('input', { type: 'search', placeholder: 'Filter: name, kind', 'aria-label': 'Filter tensors', value: query.filter ?? '', spellcheck: 'false',
    oninput: () => { keep({ filter: search.value.trim() }); fill(); } });
  const fill = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    view.show(rows.filter((row) => words.every((word) => `${row.name} ${row.a} ${row.b} ${KINDS[kindOf(row.name)]}`.toLowerCase().includes(word))));
  };
  const meter = h('progress', { max: 1, value: 0, 'aria-label': 'Comparison' });
  const status = h('span', { class: 'num', role: 'status' });
  const numbers = h('div', {});
  const layers = h('div', {});
  let by = 'layer';
  let drawn = 0;

  function byGroup() {
    const groups = new Map();
    for (const row of rows) {
      const layer = layerOf(row.name);
      const key = by === 'kind' ? KINDS[kindOf(row.name)] : layer ? `${layer.stack} ${layer.layer}` : 'outside the layers';
      if (!groups.has(key)) groups.set(key, { key, order: layer ? layer.layer : -1, label: layer && by === 'layer' ? String(layer.layer) : '–', rows: [] });
      groups.get(key).rows.push(row);
    }
    const sorted = [...groups.values()];
    if (by === 'layer') sorted.sort((x, y) => x.order - y.order);
    return sorted.map((group) => ({ ...group, value: together(group.rows, state.found).error }));
  }

  function drawGroups() {
    const groups = byGroup().filter((group) => group.value !== null);
    if (groups.length === 0) { layers.replaceChildren(); return; }
    const bars = groups.map((group) => ({ label: by === 'kind' ? group.key : group.label, title: group.key, parts: [group.value] }));
    layers.replaceChildren(section('Where it hurts', 'Mean relative RMS of matrices, weighted by size', segments('Groups', [['layer', 'By layer'], ['kind', 'By kind']], by, (chosen) => { by = chosen; drawGroups(); }),
      columns(bars, ['error'], percent, { label: `Relative RMS by ${by}` })));
  }

  state.listen(() => {
    meter.value = state.found.length / Math.max(1, total);
    meter.hidden = state.done;
    status.textContent = state.error ? state.error.message : state.done ? `${whole(total)} pairs compared` : `${whole(state.found.length)} of ${whole(total)} pairs compared`;
    const now = performance.now();
    if (!state.done && now - drawn < 500) return;
    drawn = now;
    const values = state.found.filter((entry) => entry.outcome === 'values');
    const identical = state.found.filter((entry) => entry.outcome === 'identical').length;
    const equal = values.filter((entry) => entry.differing === 0).length;
    const differing = values.length - equal + state.found.filter((entry) => entry.outcome === 'shapes').length;
    const { error, matrices } = together(rows, state.found);
    const sum = (get) => rows.reduce((size, row) => size + get(row), 0);
    numbers.replaceChildren(facts([
      ['Relative RMS', error === null ? '–' : percent(error), `mean over ${matrices === 1 ? '1 matrix' : `${whole(matrices)} matrices`}, weighted by size`],
      ['Tensors that differ', whole(differing), `of ${whole(state.found.length)}`],
      ['Equal', whole(equal + identical), `${whole(identical)} with the same bytes`],
      ['Size of A', bytes(sum((row) => row.bytesA))],
      ['Size of B', bytes(sum((row) => row.bytesB))],
      ['Only in A, only in B', `${whole(table.only_a.length)}, ${whole(table.only_b.length)}`],
    ]));
    view.refresh();
    drawGroups();
  }, signal);

  const quality = h('div', {});
  if (list.length > 2) chart(list, a, signal, quality);
  fill();
  const only = (which, names) => names.length > 0 && section(`Only in ${which}`, plural(names.length, 'tensor'), null,
    new Table({ label: `Only in ${which}`, rows: names, height: '300px', columns: [{ label: 'Tensor', sort: (row) => row, cell: (row) => name(row, 200) }] }).node);
  const csv = () => take.csv(`${labels[a]} against ${labels[b]}`, ['tensor', 'dtype A', 'dtype B', 'shape', 'outcome', 'relative RMS', 'cosine', 'largest difference', 'differing', 'elements'],
    view.rows.map((row) => { const entry = found(row); return [row.name, row.a, row.b, row.shape.join('x'), entry?.outcome, entry?.relative_rms, entry?.cosine, entry?.max_difference, entry?.differing, row.elements]; }));
  return {
    title: 'Compare',
    nodes: [
      head('Compare', { crumb: 'Tensors are matched by canonical name', sub: [status, meter],
        tools: [choose('A', a, (which) => link('compare', which, b)), choose('B', b, (which) => link('compare', a, which))] }),
      a === b && h('div', { class: 'notices' }, notice('Note', 'A and B are the same model.')),
      table.notes.length > 0 && h('div', { class: 'notices', vars: { 'margin-bottom': '20px' } }, table.notes.map((text) => notice('Note', text))),
      numbers, h('section', {}, layers),
      quality,
      section('Tensors', null, [search, take.button('CSV', csv, 'Save the rows shown')], view.node),
      only('A', table.only_a), only('B', table.only_b),
      take.command(`weighbridge diff ${quoted(list[a].path)} ${quoted(list[b].path)} --all`),
    ].filter(Boolean),
  };
}

/** Several models against one: size against error. */
function chart(list, a, signal, place) {
  const others = list.map((_, which) => which).filter((which) => which !== a);
  const states = new Map();
  const draw = () => {
    const points = [...states].filter(([, { state, rows }]) => state.done && rows.length > 0).map(([other, { state, rows }]) => ({
      x: list[other].stored_bytes, y: together(rows, state.found).error, label: base(list[other].path), href: link('compare', a, other),
    })).filter((point) => point.y !== null);
    const working = states.size < others.length || [...states.values()].some(({ state }) => !state.done && !state.error);
    const drawn = points.length > 0 && scatter(points, { label: 'Size against relative RMS', xLabel: 'size', yLabel: 'relative RMS', xFormat: bytes, yFormat: percent });
    const tools = drawn && [
      take.button('PNG', () => take.picture('size against error', drawn), 'Save the picture'),
      take.button('CSV', () => take.csv('size against error', ['model', 'bytes', 'relative RMS'], points.map((point) => [point.label, point.x, point.y])), 'Save the numbers'),
    ];
    place.replaceChildren(section('Size against error', `Every other model against ${shown(base(list[a].path), 60)}${working ? ', still being compared' : ''}`, tools,
      drawn,
      points.length > 0 && h('ul', { class: 'legend' }, points.map((point) => h('li', {}, h('a', { href: point.href }, shown(point.label, 60)), h('span', { class: 'muted' }, ` ${bytes(point.x)}, ${percent(point.y)}`))))));
  };
  for (const other of others) {
    pairsOf(a, other).then((table) => {
      if (signal.aborted) return;
      const rows = table.name.map((_, at) => ({ pair: at, elements: elements(table.shape[at]) }));
      const state = differencesOf(a, other, rows.length);
      states.set(other, { state, rows });
      state.listen(() => { if (state.done || state.error) draw(); }, signal);
    }, () => { /* a model without common names has no point */ });
  }
  draw();
}
