// The differences of two models: pairs of tensors, their errors, and those with the largest.

import { busy, h, shortName, shown, trouble } from './dom.js';
import { overlay } from './charts.js';
import { elements, parsed, percent, plural, sides } from './format.js';
import { ask } from './source.js';
import { link } from './state.js';
import { position } from './tensor.js';

/** The rows of the tensors that two models have. */
export const pairRows = (table) => table.name.map((pair, at) => ({
  pair: at, name: pair, shape: table.shape[at], elements: elements(table.shape[at]), stored: table.stored_b[at], needsImatrix: table.needs_importance[at],
  a: table.dtypes[table.dtype_a[at]], b: table.dtypes[table.dtype_b[at]], bytesA: table.bytes_a[at], bytesB: table.bytes_b[at],
}));

/** The error of several tensors, as `diff` computes it: the mean over the matrices among them, weighted by size. */
export function together(rows, differences) {
  const matrices = rows.filter((row) => differences[row.pair]?.matrix_error !== undefined);
  const size = matrices.reduce((sum, row) => sum + row.elements, 0);
  const sum = matrices.reduce((sum, row) => sum + differences[row.pair].matrix_error * row.elements, 0);
  return { error: size > 0 ? sum / size : null, matrices: matrices.length };
}

/** The relative RMS of a pair, or null if its values were not compared. */
export function relativeOf(found) {
  if (found?.outcome === 'identical') return 0;
  return found?.outcome === 'values' ? parsed(found.relative_rms) : null;
}

/** The clipped values of a pair; null if that is unknown. */
export const clippingOf = async (pair, signal) => (await ask('clipping', pair, signal)).clipping;

/** Clipped values in words. */
export function clipped(found) {
  if (found.clipped === 0) return 'no value clipped';
  return `${plural(found.clipped, 'value')} clipped, with ${percent(found.share_of_error)} of the squared error`;
}

/** Draws the histograms of a pair over each other, and says how many values were clipped. */
async function drawPair(row, { a, b, signal }, place, note) {
  const pair = { a, b, pair: row.pair };
  const side = async (which, range) => (await ask('statistics', { ...pair, side: which, bins: 64, low: range?.low, high: range?.high }, signal)).tensors[0];
  try {
    const first = await side('a');
    const second = await side('b', first.histogram);
    if (!first.histogram || !second.histogram) throw new Error('no value is finite');
    const series = [[first, 'fill-a'], [second, 'fill-b']].map(([found, css]) => ({ histogram: found.histogram, total: found.elements, css }));
    place.replaceChildren(overlay(series, `Histograms of ${shown(row.name, 80)} in A and B`));
    const found = await clippingOf(pair, signal);
    if (!found) return;
    const at = found.worst && position([found.worst.row, found.worst.column], sides(row.shape), (part) => link('compare', a, b, row.name, part));
    note.replaceChildren(h('span', {}, clipped(found), at && [', the worst at ', at]));
  } catch (error) {
    place.replaceChildren(trouble(error) ?? '');
  }
}

/** The tensors with the largest error, with the histograms of both models over each other. */
export function worstTensors({ a, b, rows, differences, signal, most = 10 }) {
  const error = (row) => differences[row.pair]?.matrix_error ?? 0;
  const sorted = rows.filter((row) => error(row) > 0).sort((x, y) => error(y) - error(x)).slice(0, most);
  const work = sorted.map((row) => ({ row, place: h('div', {}, busy('Reading…')), note: h('p', { class: 'muted small num' }) }));
  // One after another: each reads two tensors.
  (async () => { for (const { row, place, note } of work) { if (signal.aborted) return; await drawPair(row, { a, b, signal }, place, note); } })();
  return h('div', { class: 'multiples' }, work.map(({ row, place, note }) => h('figure', {},
    h('h3', {}, h('a', { href: link('compare', a, b, row.name) }, shortName(row.name, 34))),
    h('p', { class: 'muted small num' }, `${shown(row.a, 20)} to ${shown(row.b, 20)}: ${percent(error(row))}`),
    place, note)));
}
