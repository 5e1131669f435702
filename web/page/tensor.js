// One tensor: where its bytes lie, how its values are distributed, and the values themselves.

import { busy, facts, h, head, name, notice, pairs, section, segments, shown, titleName, trouble } from './dom.js';
import { base, bits, bytes, number, percent, plural, quoted, shape, sides, whole } from './format.js';
import { histogram, profile } from './charts.js';
import { heatmap } from './heatmap.js';
import { ask } from './source.js';
import { keep, limits, link, tensors } from './state.js';
import * as take from './take.js';

/** A position in a tensor, as a link that shows the values around it. */
export function position(at, dims, href) {
  const text = at.join(', ');
  if (!href || dims.length < 2) return text;
  const column = at.at(-1);
  const row = at.slice(0, -1).reduce((sum, index, axis) => sum * dims[axis] + index, 0);
  const [rows, columns] = sides(dims);
  return h('a', { href: href({ rows: span(row, rows), columns: span(column, columns) }) }, text);
}

/** Some rows or columns around one, as an address has them. */
export function span(at, count, around = 8) {
  const first = Math.max(0, Math.min(at - around, count - 2 * around));
  return `${first}-${Math.min(count, first + 2 * around)}`;
}

/** The facts about values. `href` gives the address of a part of the tensor; outliers are beyond `outlier` deviations. */
export function figures(found, href, outlier) {
  const extreme = (end) => (end ? [number(end.value), end.at.length > 0 && ['at ', position(end.at, found.shape, href)]] : ['–']);
  return facts([
    ['Mean', number(found.mean)],
    ['Deviation', number(found.deviation)],
    ['Least', ...extreme(found.min)],
    ['Largest', ...extreme(found.max)],
    ['Zeros', percent(found.zeros / Math.max(1, found.elements)), found.zeros > 0 && plural(found.zeros, 'value')],
    ['Outliers', whole(found.outliers), `beyond ${outlier} deviations`],
    ['NaN', found.nan > 0 ? whole(found.nan) : null],
    ['Infinite', found.infinite > 0 ? whole(found.infinite) : null],
  ]);
}

/**
 * The section of a histogram. `load(range, signal, onprogress)` asks for the statistics that it shows, as a list
 * of `{found, label, css}`.
 */
export async function distribution({ load, signal, label, title = 'Distribution' }) {
  const place = h('div', {});
  let logarithmic = true;
  let series = null;
  let chart = null;
  const draw = () => {
    const drawn = histogram(series.map(({ found, label: text, css }) => ({ histogram: found.histogram, total: Math.max(1, found.elements), label: text, css })), { logarithmic, label });
    chart = drawn.chart;
    const { found: { histogram: { below, above } }, label: text } = series[0];
    const beyond = below + above > 0 && h('p', { class: 'muted small num' }, `${whole(below)} values${text && ` of ${text}`} are left of what is shown, ${whole(above)} right of it.`);
    place.replaceChildren(drawn.node, ...(beyond ? [beyond] : []));
  };
  const get = async (range) => {
    try {
      const found = await load(range, signal, (share) => { waiting.lastChild.textContent = `Reading the values… ${Math.floor(share * 100)} %`; });
      if (signal.aborted) return false;
      series = found.filter(({ found: { histogram: known } }) => known);
      if (series.length === 0) place.replaceChildren(h('p', { class: 'muted' }, 'No value is finite.'));
      else draw();
      return found;
    } catch (error) {
      if (!signal.aborted) place.replaceChildren(trouble(error) ?? '');
      return false;
    }
  };
  const waiting = busy('Reading the values…');
  place.replaceChildren(waiting);
  const first = get(null);
  const tools = [
    segments('Range', [['usual', 'Usual range'], ['all', 'All values']], 'usual', (value) => {
      if (!series?.length) return;
      const ends = series.map(({ found }) => [found.min.value, found.max.value]);
      get(value === 'all' ? [Math.min(...ends.map(([low]) => low)), Math.max(...ends.map(([, high]) => high))] : null);
    }),
    segments('Scale of heights', [[false, 'Linear'], [true, 'Logarithmic']], true, (value) => { logarithmic = value; if (series?.length) draw(); }),
    take.button('PNG', () => chart && take.picture(label, chart), 'Save the picture'),
    take.button('JSON', () => series && take.json(label, series.map(({ found }) => found)), 'Save the numbers'),
  ];
  return { node: section(title, null, tools, place), first };
}

/** The norms of rows and columns, from the cells of a grid of a whole matrix; NaN where no value is finite. */
function norms(grid) {
  const norm = (count, cell) => {
    const known = Array.from({ length: count }, (_, at) => grid.rms[cell(at)]).filter(Number.isFinite);
    return known.length > 0 ? Math.sqrt(known.reduce((sum, rms) => sum + rms ** 2, 0) / known.length) : NaN;
  };
  return {
    rows: Array.from({ length: grid.height }, (_, i) => norm(grid.width, (j) => i * grid.width + j)),
    columns: Array.from({ length: grid.width }, (_, j) => norm(grid.height, (i) => i * grid.width + j)),
  };
}

/** The sections of a matrix: heat map, and norms by row and column. */
export function matrix({ dims, get, signal, block, query, title, words, heading = 'Values' }) {
  const [rows, columns] = sides(dims);
  if (rows * columns === 0) return [section(heading, null, null, h('p', { class: 'muted' }, 'The tensor has no values.'))];
  if (rows === 1) {
    const place = h('div', {}, busy('Reading the values…'));
    get({ height: 1, width: 720 }, signal).then((grid) => {
      const values = grid.mean.map(Number);
      place.replaceChildren(profile(values, { height: 220, label: `${title}: values by position`, start: 0, end: columns }));
    }, (error) => place.replaceChildren(trouble(error) ?? ''));
    return [section(heading, columns > 720 ? `means of ${plural(Math.ceil(columns / 720), 'value')}` : 'by position', null, place)];
  }
  const range = (text) => /^(\d+)-(\d+)$/.exec(text ?? '')?.slice(1).map(Number);
  const [r, c] = [range(query.rows), range(query.columns)];
  const inside = r && c && r[0] < r[1] && r[1] <= rows && c[0] < c[1] && c[1] <= columns;
  const map = heatmap({ rows, columns, signal, block, title, words, get,
    view: inside ? [...r, ...c] : null,
    onview: (view) => keep({ rows: view && `${view[0]}-${view[1]}`, columns: view && `${view[2]}-${view[3]}` }) });
  const place = h('div', { class: 'two' }, busy('Reading the values…'));
  get({ height: 256, width: 256 }, signal).then((grid) => {
    for (const key of ['rms']) grid[key] = grid[key].map(Number);
    const found = norms(grid);
    const part = (text, values, count) => h('figure', {}, h('h3', {}, count > values.length ? `${text}, each of ${whole(Math.round(count / values.length))}` : text),
      profile(values, { part: 0.5, label: `${title}: ${text}`, end: count }));
    place.replaceChildren(part('RMS by row', found.rows, rows), part('RMS by column', found.columns, columns));
  }, (error) => place.replaceChildren(trouble(error) ?? ''));
  const note = dims.length > 2 ? `${shape(dims)} as ${whole(rows)} rows of ${whole(columns)}` : null;
  return [section(heading, note, map.tools, map.node), section('Norms', 'The root mean square of each row and column', null, place)];
}

/** The section of what stands out: the largest values, and the rows and columns with most outliers. */
function standouts({ model, at, dims, here, signal, outlier }) {
  const place = h('div', {}, busy('Looking for values that stand out…'));
  const [rows, columns] = sides(dims);
  const lines = (title, found, to) => h('div', {}, h('h3', {}, title), found.outliers.length === 0 ? h('p', { class: 'muted small' }, 'None has outliers.') : h('table', { class: 'plain' },
    h('thead', {}, h('tr', {}, ['Position', 'Outliers', 'RMS'].map((text, column) => h('th', { scope: 'col', class: column > 0 && 'right' }, text)))),
    h('tbody', {}, found.outliers.map((line) => h('tr', {}, h('td', {}, h('a', { href: here(to(line.index)) }, whole(line.index))), h('td', { class: 'right' }, whole(line.outliers)), h('td', { class: 'right' }, number(line.rms)))))),
  h('p', { class: 'muted small num' }, found.with_outliers > 0 && `${whole(found.with_outliers)} have outliers. `, found.dead > 0 && [`${whole(found.dead)} are 0: the first is `, h('a', { href: here(to(found.first_dead)) }, whole(found.first_dead))]));
  ask('standouts', { model, at }, signal, (share) => { if (place.firstChild.lastChild) place.firstChild.lastChild.textContent = `Looking for values that stand out… ${Math.floor(share * 100)} %`; }).then((found) => {
    const matrixLike = rows > 1 && columns > 1;
    const region = (index, count, other) => ({ ...(other === 'columns' ? { rows: span(index, count), columns: `0-${Math.min(columns, 64)}` } : { columns: span(index, count), rows: `0-${Math.min(rows, 64)}` }) });
    place.replaceChildren(h('div', { class: matrixLike ? 'three' : '' },
      h('div', {}, h('h3', {}, 'Largest magnitudes'), found.largest.length === 0 ? h('p', { class: 'muted small' }, 'No value is finite.') : h('table', { class: 'plain' },
        h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Position'), h('th', { scope: 'col', class: 'right' }, 'Value'))),
        h('tbody', {}, found.largest.map((one) => h('tr', {}, h('td', {}, position(one.at, dims, here) || '–'), h('td', { class: 'right' }, number(one.value))))))),
      matrixLike && lines('Rows with most outliers', found.rows, (index) => region(index, rows, 'columns')),
      matrixLike && lines('Columns with most outliers', found.columns, (index) => region(index, columns, 'rows'))));
  }, (error) => place.replaceChildren(trouble(error) ?? ''));
  return section('What stands out', `Outliers are beyond ${outlier} deviations from the mean`, null, place);
}

export async function show({ model, list, name: wanted, query, signal }) {
  const [table, { outlier }] = await Promise.all([tensors(model), limits()]);
  let at = table.name.indexOf(wanted);
  if (at < 0) at = table.canonical.indexOf(wanted);
  if (at < 0) throw new Error(`no tensor is named ${shown(wanted, 200)}`);
  const path = list[model].path;
  const stored = table.name[at];
  const detail = await ask('tensor', { model, at }, signal);
  const canonical = table.canonical[at];
  const near = (step) => table.name[at + step] !== undefined && h('a', { class: 'button', href: link(model, 'tensor', table.name[at + step]), 'aria-label': step < 0 ? 'Previous tensor' : 'Next tensor', title: shown(table.name[at + step], 120) }, step < 0 ? '←' : '→');
  const here = (part) => link(model, 'tensor', stored, part);
  const block = detail.group_size ?? detail.block_len ?? null;
  const nodes = [
    head(titleName(stored), {
      crumb: [h('a', { href: link(model, 'tensors') }, 'Tensors'), ' · ', name(base(path), 60)],
      sub: [canonical && canonical !== stored && h('span', {}, name(canonical, 200)), h('span', {}, shown(detail.dtype, 40)), h('span', { class: 'num' }, shape(detail.shape)), h('span', { class: 'num' }, `${bytes(detail.bytes)}, ${bits(detail.bits_per_weight)} bits per weight`)],
      tools: [take.button('Copy name', () => take.copy(stored, 'Name copied')), near(-1), near(1)],
    }),
  ];
  if (detail.unreadable) {
    nodes.push(h('div', { class: 'notices' }, notice('Note', detail.unreadable, 'Its bytes can be converted and hashed, but not its values shown.')));
  } else if (detail.elements > 0) {
    const place = h('div', {}, busy('Reading the values…'));
    const spread = await distribution({
      signal, label: `${stored} histogram`,
      load: async (range, until, told) => {
        const [found] = (await ask('statistics', { model, at, bins: 160, low: range?.[0], high: range?.[1] }, until, told)).tensors;
        if (found.reason) throw new Error(found.reason);
        return [{ found, label: '', css: 'fill-a' }];
      },
    });
    const details = h('div', {});
    spread.first.then((found) => {
      if (!found) { place.replaceChildren(); return; }
      const [{ found: values }] = found;
      place.replaceChildren(figures(values, here, outlier));
      const { scales } = values;
      details.replaceChildren(h('div', { class: 'two' },
        section('Quantiles', null, null, h('table', { class: 'plain' },
          h('thead', {}, h('tr', {}, h('th', { scope: 'col' }, 'Share of values below'), h('th', { scope: 'col', class: 'right' }, 'Value'))),
          h('tbody', {}, values.quantiles.map(({ share, value }) => h('tr', {}, h('td', {}, `${Math.round(share * 1000) / 10} %`), h('td', { class: 'right' }, number(value))))))),
        section('Storage', null, null, pairs([
          ['Packing', detail.summary ? shown(detail.summary.replaceAll('`', ''), 200) : null],
          ['Scale shared by', block ? plural(block, 'value') : null],
          ['Scales', scales ? `${whole(scales.count)}, ${scales.zeros} of them 0` : null],
          ['Their magnitude', scales && scales.min !== null ? `${number(scales.min)} to ${number(scales.max)}, mean ${number(scales.mean)}` : null],
          ...detail.parts.slice(0, 12).map((part) => [shown(part.part, 40), [name(base(part.file), 80), h('div', { class: 'muted small num' }, `${part.dtype}, bytes ${whole(part.offset)} to ${whole(part.offset + part.bytes)} (${bytes(part.bytes)})`)]]),
        ]))));
      });
    nodes.push(place, spread.node);
    nodes.push(...matrix({ dims: detail.shape, signal, block, query, title: stored, get: (parameters, until, told) => ask('grid', { model, at, ...parameters }, until, told) }));
    if (detail.elements > 1) nodes.push(standouts({ model, at, dims: detail.shape, here, signal, outlier }));
    nodes.push(h('section', {}, details));
  }
  nodes.push(take.command(`weighbridge inspect ${quoted(path)} ${quoted(stored)}`));
  return { title: shown(stored, 60), nodes };
}
