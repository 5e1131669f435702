// Two models: what differs, tensor by tensor.

import { busy, facts, h, head, name, notice, section, segments, shortName, shown, trouble } from './dom.js';
import { bars, columns, overlay } from './charts.js';
import { bytes, elements, number, parsed, percent, plural, quoted, shape, whole } from './format.js';
import { ask } from './source.js';
import { differencesOf, keep, KINDS, kindOf, kindFilter, labelsOf, layerName, layerOf, link, matcher, pairsOf } from './state.js';
import { Table } from './table.js';
import * as take from './take.js';

/** The error of several tensors, as `diff` computes it: the mean over the matrices among them, weighted by size. */
export function together(rows, differences) {
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

/** The rows of the tensors that two models have. */
export const pairRows = (table) => table.name.map((pair, at) => ({ pair: at, name: pair, shape: table.shape[at], elements: elements(table.shape[at]), a: table.dtypes[table.dtype_a[at]], b: table.dtypes[table.dtype_b[at]], bytesA: table.bytes_a[at], bytesB: table.bytes_b[at], stored: table.stored_b[at] }));

/** The tensors with the largest error, with the histograms of both models over each other. */
export function worstTensors({ a, b, rows, differences, signal, most = 10 }) {
  const sorted = rows.filter((row) => differences[row.pair]?.matrix_error > 0).sort((x, y) => differences[y.pair].matrix_error - differences[x.pair].matrix_error).slice(0, most);
  const draw = async (row, place) => {
    const side = async (which, range) => (await ask('statistics', { a, b, pair: row.pair, side: which, bins: 64, low: range?.low, high: range?.high }, signal)).tensors[0];
    try {
      const first = await side('a');
      const second = await side('b', first.histogram);
      if (!first.histogram || !second.histogram) throw new Error('no value is finite');
      place.replaceChildren(overlay([{ histogram: first.histogram, total: first.elements, css: 'fill-a' }, { histogram: second.histogram, total: second.elements, css: 'fill-b' }], `Histograms of ${shown(row.name, 80)} in A and B`));
    } catch (error) {
      place.replaceChildren(trouble(error) ?? '');
    }
  };
  const work = sorted.map((row) => [row, h('div', {}, busy('Reading…'))]);
  // One after another: each reads two tensors.
  (async () => { for (const [row, place] of work) { if (signal.aborted) return; await draw(row, place); } })();
  return h('div', { class: 'multiples' }, work.map(([row, place]) => h('figure', {},
    h('h3', {}, h('a', { href: link('compare', a, b, row.name) }, shortName(row.name, 34))),
    h('p', { class: 'muted small num' }, `${shown(row.a, 20)} to ${shown(row.b, 20)}: ${percent(differences[row.pair].matrix_error)}`,
      differences[row.pair].clipped !== undefined && `, a large value cut by ${percent(differences[row.pair].clipped)}`),
    place)));
}

const OUTCOMES = { identical: 'identical', shapes: 'shape', unread: 'not read' };

export async function show({ a, b, list, query, signal }) {
  const table = await pairsOf(a, b);
  const total = table.name.length;
  const rows = pairRows(table);
  const state = differencesOf(a, b, total);
  const found = (row) => state.found[row.pair];
  const labels = labelsOf(list).map((label) => shown(label, 60));
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
      { label: 'Tensor', width: 'minmax(124px, 1.3fr)', wraps: true, sort: (row) => row.name, cell: (row) => h('a', { href: link('compare', a, b, row.name) }, shortName(row.name)) },
      { label: 'A', width: '92px', hide: 'hide-m', sort: (row) => row.a, cell: (row) => shown(row.a, 24) },
      { label: 'B', width: '92px', hide: 'hide-s', sort: (row) => row.b, cell: (row) => shown(row.b, 24) },
      { label: 'Shape', width: '116px', right: true, hide: 'hide-m', most: true, sort: (row) => row.elements, cell: (row) => shape(row.shape) },
      { label: 'Relative RMS', width: '104px', right: true, most: true, sort: (row) => relativeOf(found(row)), cell: (row) => { const entry = found(row); return entry ? OUTCOMES[entry.outcome] ?? percent(entry.relative_rms) : ''; } },
      { label: 'Cosine', width: '92px', right: true, hide: 'hide-s', sort: value((entry) => entry.cosine), cell: cell((entry) => entry.cosine, (cosine) => (cosine === null ? '–' : cosine.toFixed(7))) },
      { label: 'Largest', width: '92px', right: true, hide: 'hide-s', most: true, sort: value((entry) => entry.max_difference), cell: cell((entry) => entry.max_difference, number) },
      { label: 'Differ', width: '88px', right: true, hide: 'hide-m', most: true, sort: value((entry) => entry.differing / entry.elements), cell: cell((entry) => entry.differing / entry.elements, percent) },
    ],
    sorted: 4, descending: true, onsort: (sort) => keep({ sort }),
    open: (row) => { location.hash = link('compare', a, b, row.name); },
    hint: (row) => (found(row)?.reason ? shown(found(row).reason, 300) : shown(row.name, 300)),
  });
  view.sortAs(query.sort);
  const search = h('input', { type: 'search', placeholder: 'Filter: name, kind', 'aria-label': 'Filter tensors', value: query.filter ?? '', spellcheck: 'false',
    oninput: () => { keep({ filter: search.value.trim() }); fill(); } });
  const fill = () => {
    view.show(rows.filter(matcher(search.value, (row) => ({ names: [row.name, row.a], dtypes: [row.b], name: row.name }))));
  };
  const meter = h('progress', { max: 1, value: 0, 'aria-label': 'Comparison' });
  const status = h('span', { class: 'num', role: 'status' });
  const faults = h('div', { class: 'notices' });
  const worst = h('div', {});
  const numbers = h('div', {});
  const layers = h('div', {});
  let by = ['kind', 'dtype'].includes(query.by) ? query.by : 'layer';
  let drawn = 0;

  function byGroup() {
    const groups = new Map();
    for (const row of rows) {
      const layer = layerOf(row.name);
      const key = by === 'kind' ? KINDS[kindOf(row.name)] : by === 'dtype' ? row.b : layer ? layerName(layer) : 'outside the layers';
      const filter = by === 'layer' ? layer && `${layer.stack ? `${layer.stack}.` : ''}${layer.layer}.` : by === 'kind' ? kindFilter(key) : `dtype:${key.split(' ')[0]}`;
      if (!groups.has(key)) groups.set(key, { key, filter, order: layer ? layer.layer : -1, label: layer && by === 'layer' ? String(layer.layer) : '–', rows: [] });
      groups.get(key).rows.push(row);
    }
    const sorted = [...groups.values()];
    if (by === 'layer') sorted.sort((x, y) => x.order - y.order);
    return sorted.map((group) => ({ ...group, value: together(group.rows, state.found).error }));
  }

  /** The dtypes of a group in B, the most frequent by size first. */
  const dtypesOf = (some) => {
    const sizes = new Map();
    for (const row of some) sizes.set(row.b, (sizes.get(row.b) ?? 0) + row.elements);
    const sorted = [...sizes].sort((x, y) => y[1] - x[1]).map(([dtype]) => shown(dtype, 20));
    return sorted.length > 3 ? `${sorted.slice(0, 3).join(', ')} and ${sorted.length - 3} more` : sorted.join(', ');
  };

  function drawGroups() {
    const groups = byGroup().filter((group) => group.value !== null);
    if (groups.length === 0) { layers.replaceChildren(); return; }
    const href = (group) => link('compare', a, b, { filter: group.filter, by, sort: query.sort });
    const picture = by === 'layer'
      ? columns(groups.map((group) => ({ label: group.label, title: `${group.key}, ${dtypesOf(group.rows)}`, href: href(group), parts: [group.value] })), ['error'], percent, { label: 'Relative RMS by layer' })
      : bars(groups.map((group) => ({ label: group.key, note: `${dtypesOf(group.rows)}, ${plural(group.rows.length, 'tensor')}`, value: group.value, href: href(group) })).sort((x, y) => y.value - x.value), percent, { label: `Relative RMS by ${by}` });
    layers.replaceChildren(section('Where it hurts', 'Mean relative RMS of matrices, weighted by size. A bar shows its tensors.',
      segments('Groups', [['layer', 'By layer'], ['kind', 'By kind'], ['dtype', 'By dtype']], by, (chosen) => { by = chosen; keep({ by: chosen === 'layer' ? null : chosen }); drawGroups(); }), picture));
  }

  state.listen(() => {
    meter.value = state.found.length / Math.max(1, total);
    meter.hidden = state.done;
    faults.replaceChildren(...[state.error && trouble(state.error)].filter(Boolean));
    status.textContent = state.done ? `${whole(total)} pairs compared` : `${whole(state.found.length)} of ${whole(total)} pairs compared`;
    const now = performance.now();
    if (!state.done && now - drawn < 500) return;
    drawn = now;
    const values = state.found.filter((entry) => entry.outcome === 'values');
    const identical = state.found.filter((entry) => entry.outcome === 'identical').length;
    const equal = values.filter((entry) => entry.differing === 0).length;
    const differing = values.length - equal + state.found.filter((entry) => entry.outcome === 'shapes').length;
    const clipped = values.filter((entry) => entry.clipped !== undefined);
    const { error, matrices } = together(rows, state.found);
    numbers.replaceChildren(facts([
      ['Relative RMS', error === null ? '–' : percent(error), `mean over ${matrices === 1 ? '1 matrix' : `${whole(matrices)} matrices`}, weighted by size`],
      ['Tensors that differ', whole(differing), state.done ? `of ${whole(total)}` : `of ${whole(state.found.length)} compared so far`],
      ['Equal', whole(equal + identical), `${whole(identical)} with the same bytes`],
      ['Clipped', clipped.length > 0 ? whole(clipped.length) : null, 'tensors with a large value cut off'],
      ['Size of A', bytes(list[a].file_bytes)],
      ['Size of B', bytes(list[b].file_bytes)],
      ['Only in A, only in B', `${whole(table.only_a.length)}, ${whole(table.only_b.length)}`],
    ]));
    view.refresh();
    drawGroups();
    if (state.done && differing > 0) worst.replaceChildren(section('Ten worst tensors', 'The values of A and of B; the heights are logarithmic', null, worstTensors({ a, b, rows, differences: state.found, signal })));
  }, signal);

  fill();
  const only = (which, names) => names.length > 0 && section(`Only in ${which}`, plural(names.length, 'tensor'), null,
    new Table({ label: `Only in ${which}`, rows: names, height: '300px', columns: [{ label: 'Tensor', sort: (row) => row, cell: (row) => name(row, 200) }] }).node);
  const csv = () => take.csv(`${labels[a]} against ${labels[b]}`, ['tensor', 'dtype A', 'dtype B', 'shape', 'outcome', 'relative RMS', 'cosine', 'largest difference', 'differing', 'elements'],
    view.rows.map((row) => { const entry = found(row); return [row.name, row.a, row.b, row.shape.join('x'), entry?.outcome, entry?.relative_rms, entry?.cosine, entry?.max_difference, entry?.differing, row.elements]; }));
  return {
    title: 'Compare',
    nodes: [
      head('Compare', { crumb: 'Tensors are matched by canonical name', sub: [status, meter, list.length > 2 && h('a', { href: link('compare', a, 'all') }, `all ${list.length} models`)],
        tools: [choose('A', a, (which) => link('compare', which, b)), choose('B', b, (which) => link('compare', a, which))] }),
      a === b && h('div', { class: 'notices' }, notice('Note', 'A and B are the same model.')),
      table.notes.length > 0 && h('div', { class: 'notices', vars: { 'margin-bottom': '20px' } }, table.notes.map((text) => notice('Note', text))),
      faults, numbers, h('section', {}, layers),
      section('Tensors', null, [search, take.button('CSV', csv, 'Save the rows shown')], view.node),
      worst,
      only('A', table.only_a), only('B', table.only_b),
      take.command(`weighbridge diff ${quoted(list[a].path)} ${quoted(list[b].path)} --all`),
    ].filter(Boolean),
  };
}
