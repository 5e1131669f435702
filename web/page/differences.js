// The differences of two models: pairs of tensors, their errors, and those with the largest.

import { busy, h, section, shortName, shown, trouble } from './dom.js';
import { overlay } from './charts.js';
import { elements, number, parsed, percent, plural, sides } from './format.js';
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

/** Whether a pair has a value that is NaN or infinite in one model alone; its numbers are those of the other values. */
export const isSpoiled = (found) => found?.outcome === 'values' && !Number.isFinite(parsed(found.max_difference));

/** The relative RMS of a pair to sort by, the worst as infinite, or null if its values were not compared. */
export function relativeOf(found) {
  if (found?.outcome === 'identical') return 0;
  if (isSpoiled(found)) return Infinity;
  return found?.outcome === 'values' ? parsed(found.relative_rms) : null;
}

/** The relative RMS of a pair as text. */
export const relativeText = (found) => (isSpoiled(found) ? number(found.max_difference) : percent(found.relative_rms));

/** The clipped values of a pair; null if that is unknown. */
export const clippingOf = async (pair, signal) => (await ask('clipping', pair, signal)).clipping;

/** Clipped values in words. */
export function clipped(found) {
  if (found.clipped === 0) return 'no value clipped';
  return `${plural(found.clipped, 'value')} clipped, with ${percent(found.share_of_error)} of the squared error`;
}

/** The ends of a histogram, unless all values are one number. */
const rangeOf = ({ histogram }) => (histogram && histogram.high > histogram.low ? [histogram.low, histogram.high] : null);

/** The statistics of both sides of a pair with the same bins: those of A, or of B if A has but one number. */
export async function bothSides(side, range = null) {
  const first = await side('a', range);
  const known = range ?? rangeOf(first);
  const second = await side('b', known);
  const other = known ? null : rangeOf(second);
  return [other ? await side('a', other) : first, second];
}

/** Draws the histograms of a pair over each other, and says how many values were clipped. */
async function drawPair(row, { a, b, signal }, place, note) {
  const pair = { a, b, pair: row.pair };
  const side = async (which, range) => (await ask('statistics', { ...pair, side: which, bins: 64, low: range?.[0], high: range?.[1] }, signal)).tensors[0];
  try {
    const [first, second] = await bothSides(side);
    const series = [[first, 'fill-a'], [second, 'fill-b']].filter(([found]) => found.histogram).map(([found, css]) => ({ histogram: found.histogram, total: found.elements, css }));
    if (series.length === 0) throw new Error('no value is finite');
    if (series.length === 1) note.replaceChildren(`No value of ${first.histogram ? 'B' : 'A'} is finite.`);
    place.replaceChildren(overlay(series, `Histograms of ${shown(row.name, 80)} in A and B`));
    const found = await clippingOf(pair, signal);
    if (!found) return;
    const at = found.worst && position([found.worst.row, found.worst.column], sides(row.shape), (part) => link('compare', a, b, row.name, part));
    note.replaceChildren(h('span', {}, clipped(found), at && [', the worst at ', at]));
  } catch (error) {
    place.replaceChildren(trouble(error) ?? '');
  }
}

/** The key of the colors of two models. */
export const colorKey = (a, b) => h('ul', { class: 'legend' }, [a, b].map((label, at) => h('li', { vars: { '--c': `var(--${'ab'[at]})` } }, h('i', { 'aria-hidden': 'true' }), `${'AB'[at]} ${shown(label, 60)}`)));

/** The section of the tensors with the largest error, with the histograms of both models over each other; null if none has one. */
export function worstTensors({ a, b, labels, rows, differences, signal, of = null }) {
  const error = (row) => differences[row.pair]?.matrix_error ?? 0;
  const sorted = rows.filter((row) => error(row) > 0).sort((x, y) => error(y) - error(x)).slice(0, 10);
  if (sorted.length === 0) return '';
  const work = sorted.map((row) => ({ row, place: h('div', {}, busy('Reading…')), note: h('p', { class: 'muted small num' }) }));
  // One after another: each reads two tensors.
  (async () => { for (const { row, place, note } of work) { if (signal.aborted) return; await drawPair(row, { a, b, signal }, place, note); } })();
  const title = sorted.length === 10 ? 'Ten worst tensors' : 'Tensors that differ most';
  const figures = h('div', { class: 'multiples' }, work.map(({ row, place, note }) => h('figure', {},
    h('h3', {}, h('a', { href: link('compare', a, b, row.name) }, shortName(row.name))),
    h('p', { class: 'muted small num' }, `${shown(row.a, 20)} to ${shown(row.b, 20)}: ${percent(error(row))}`),
    place, note)));
  return section(title, [of, 'The values of A and of B; the heights are logarithmic'].filter(Boolean).join('. '), null, colorKey(labels[a], labels[b]), figures);
}
