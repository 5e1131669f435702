// Charts as SVG.

import { h, s, shown } from './dom.js';
import { bytes, byteTicks, number, percent, ticks, whole } from './format.js';

/** The width that a chart has on the page, of which it may take a part. */
function room(part = 1) {
  const main = document.getElementById('main');
  const inner = main.clientWidth - 2 * parseFloat(getComputedStyle(main).paddingLeft);
  return Math.round(Math.max(240, part < 1 && window.innerWidth > 900 ? (inner - 48) * part : inner));
}

function axisX(low, high, x, top, bottom, most, format = number) {
  return ticks(low, high, most).map((at) => s('g', {},
    s('line', { class: 'grid', x1: x(at), x2: x(at), y1: top, y2: bottom }),
    s('text', { x: x(at), y: bottom + 16, 'text-anchor': 'middle' }, format(at))));
}

/** The series over a range that is no single number: values that are all equal are one bar, with room at its sides. */
function widened(series) {
  if (series.some(({ histogram: { low, high } }) => high > low)) return series;
  const numbers = series.map(({ histogram: { low } }) => low);
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const space = (most - least) / 4 || Math.abs(least) / 2 || 1;
  const [low, high, bins] = [least - space, most + space, 41];
  return series.map((one) => {
    const all = one.histogram.counts.reduce((sum, count) => sum + count, 0);
    const place = Math.floor(((one.histogram.low - low) / (high - low)) * bins);
    return { ...one, histogram: { low, high, counts: Array.from({ length: bins }, (_, bin) => (bin === place ? all : 0)) } };
  });
}

/** The height of a share of all values on a logarithmic axis, of 1: from the share of one value to the largest. */
function logarithm(share, least, most) {
  if (share <= 0) return 0;
  return most > least ? 0.04 + 0.96 * (Math.log(share / least) / Math.log(most / least)) : 1;
}

/** The edges and heights of a histogram's bins as a filled path. */
function outline(histogram, x, y, base) {
  const { low, high, counts } = histogram;
  const width = (high - low) / counts.length;
  let path = `M${x(low)} ${base}`;
  counts.forEach((value, bin) => {
    const top = y(value).toFixed(2);
    path += `V${top}H${x(low + (bin + 1) * width).toFixed(2)}`;
  });
  return `${path}V${base}Z`;
}

/**
 * A histogram, or two over the same range. `given` are `{histogram, total, label, css}`. The heights are shares
 * of all values, so that tensors of different sizes compare.
 */
export function histogram(given, { logarithmic = false, height = 280, label = 'Histogram' } = {}) {
  const W = room();
  const series = widened(given);
  const { low, high, counts: { length: bins } } = series[0].histogram;
  const [left, top, bottom] = [56, 12, height - 28];
  const shares = series.map(({ histogram: found, total }) => found.counts.map((value) => value / total));
  const most = Math.max(...shares.flat(), 1e-12);
  const least = Math.min(...series.map(({ total }) => 1 / total));
  const x = (at) => left + ((at - low) / (high - low)) * (W - left - 12);
  const scaled = (share) => (logarithmic ? logarithm(share, least, most) : share / most);
  const y = (share) => bottom - Math.min(1, scaled(share)) * (bottom - top);
  const marks = logarithmic
    ? Array.from({ length: 12 }, (_, power) => 10 ** -power).filter((share) => share <= most && share >= least)
    : ticks(0, most, 4);
  const paths = series.map(({ histogram: found, css }, place) =>
    s('path', { class: css, d: outline({ low, high, counts: shares[place].length ? shares[place] : found.counts }, x, y, bottom) }));
  const cursor = s('line', { class: 'cursor', y1: top, y2: bottom, visibility: 'hidden' });
  const readout = h('p', { class: 'readout' }, '');
  const chart = s('svg', { class: 'chart', viewBox: `0 0 ${W} ${height}`, role: 'img', 'aria-label': label },
    marks.map((share) => s('g', {}, s('line', { class: 'grid', x1: left, x2: W - 12, y1: y(share), y2: y(share) }),
      s('text', { x: left - 8, y: y(share) + 4, 'text-anchor': 'end' }, percent(share)))),
    axisX(low, high, x, bottom, bottom + 4, Math.max(5, W / 120)),
    s('line', { class: 'axis', x1: left, x2: W - 12, y1: bottom, y2: bottom }), paths, cursor);
  chart.addEventListener('pointermove', (event) => {
    const box = chart.getBoundingClientRect();
    const at = ((event.clientX - box.left) / box.width) * W;
    const bin = Math.floor(((at - left) / (W - left - 12)) * bins);
    if (bin < 0 || bin >= bins) { cursor.setAttribute('visibility', 'hidden'); readout.textContent = ''; return; }
    const width = (high - low) / bins;
    cursor.setAttribute('visibility', 'visible');
    cursor.setAttribute('x1', x(low + (bin + 0.5) * width));
    cursor.setAttribute('x2', x(low + (bin + 0.5) * width));
    readout.textContent = `${number(low + bin * width)} to ${number(low + (bin + 1) * width)}: ${series.map(({ histogram: found, label: name, total }) => `${name ? `${name} ` : ''}${whole(found.counts[bin])} (${percent(found.counts[bin] / total)})`).join(', ')}`;
  });
  chart.addEventListener('pointerleave', () => { cursor.setAttribute('visibility', 'hidden'); readout.textContent = ''; });
  return { chart, node: h('div', {}, chart, readout) };
}

/**
 * One stacked column for each layer. `layers` are `{label, start, parts: [size by kind]}`; where `start` changes, the label has it.
 */
export function columns(layers, format, { height = 220, label } = {}) {
  const W = room();
  const [left, top, bottom] = [64, 10, height - 26];
  const most = Math.max(...layers.map((layer) => layer.parts.reduce((sum, part) => sum + part, 0))) || 1;
  const step = Math.min((W - left - 8) / layers.length, 84);
  const y = (size) => bottom - (size / most) * (bottom - top);
  const gap = step > 6 ? Math.min(6, step * 0.24) : 0.4;
  const every = Math.ceil(layers.length / (W / 46));
  return s('svg', { class: 'chart', viewBox: `0 0 ${W} ${height}`, role: layers.some((layer) => layer.href) ? 'group' : 'img', 'aria-label': label },
    (format === bytes ? byteTicks : ticks)(0, most, 4).map((size) => s('g', {}, s('line', { class: 'grid', x1: left, x2: W - 8, y1: y(size), y2: y(size) }),
      s('text', { x: left - 8, y: y(size) + 4, 'text-anchor': 'end' }, format(size, most)))),
    layers.map((layer, place) => {
      let sum = 0;
      const x = left + place * step + gap / 2;
      const parts = layer.parts.map((part, kind) => {
        const rect = part > 0 && s('rect', { x, width: Math.max(step - gap, 0.5), y: y(sum + part), height: Math.max(y(sum) - y(sum + part), 0), fill: `var(--k${kind})` });
        sum += part;
        return rect;
      });
      const starts = layer.start && layer.start !== layers[place - 1]?.start;
      const text = (starts || place % every === 0) && s('text', { x: x + (step - gap) / 2, y: bottom + 16, 'text-anchor': 'middle' }, starts ? `${shown(layer.start, 12)} ${layer.label}` : layer.label);
      const column = [s('title', {}, `${layer.title}: ${format(sum)}`), parts];
      return s('g', {}, layer.href ? s('a', { href: layer.href, 'aria-label': `${layer.title}: ${format(sum)}` }, column) : column, text);
    }),
    s('line', { class: 'axis', x1: left, x2: W - 8, y1: bottom, y2: bottom }));
}

/** A path over points, which breaks where a number is missing; a point that is alone is a dash. */
function line(points) {
  let pen = false;
  return points.map(([x, y], place) => {
    const isThere = Number.isFinite(y);
    const step = isThere && `${pen ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}${pen || Number.isFinite(points[place + 1]?.[1]) ? '' : 'h3'}`;
    pen = isThere;
    return step || '';
  }).join('');
}

/**
 * A small chart of one value by layer, in which layers far from the others are marked. `points` are
 * `{layer, value, href, title}`.
 */
export function depth(points, { format = number, label } = {}) {
  const [w, height, left, top, bottom] = [260, 120, 54, 8, 98];
  const values = points.map((point) => point.value).filter(Number.isFinite);
  // With 0 in view, a small spread looks small.
  const [low, least] = [Math.min(0, ...values), Math.max(0, ...values)];
  const high = least > low ? least : low + 1;
  const layers = points.map((point) => point.layer);
  const [first, last] = [Math.min(...layers), Math.max(...layers)];
  const x = (layer) => (last === first ? (left + w - 6) / 2 : left + ((layer - first) / (last - first)) * (w - left - 8));
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  const odd = outliers(points.map((point) => point.value));
  const known = points.filter((point) => Number.isFinite(point.value));
  // Several points of one layer, such as experts, have no line; nor have layers that are not read yet.
  const single = new Set(layers).size === layers.length;
  const path = single ? line(points.map((point) => [x(point.layer), y(point.value)])) : '';
  return s('svg', { class: 'chart', viewBox: `0 0 ${w} ${height}`, role: 'group', 'aria-label': label },
    [low, high].map((at) => s('g', {}, s('line', { class: 'grid', x1: left, x2: w - 4, y1: y(at), y2: y(at) }),
      s('text', { x: left - 6, y: y(at) + 4, 'text-anchor': 'end' }, format(at)))),
    s('text', { x: x(first), y: bottom + 15, 'text-anchor': 'middle' }, String(first)),
    last > first && s('text', { x: x(last), y: bottom + 15, 'text-anchor': 'middle' }, String(last)),
    s('path', { class: 'line', d: path }),
    known.map((point) => {
      const marked = odd.has(points.indexOf(point));
      return s('a', { href: point.href, 'aria-label': point.title }, s('title', {}, point.title),
        s('circle', { class: marked ? 'odd' : 'dot', cx: x(point.layer), cy: y(point.value), r: marked ? 4 : known.length > 40 ? 1.8 : 2.6 }));
    }));
}

/** The range of values, and how far they spread around its middle. */
export function spread(values, format) {
  const known = values.filter(Number.isFinite);
  if (known.length === 0) return '';
  const [low, high] = [Math.min(...known), Math.max(...known)];
  if (low === high) return `all ${format(low)}`;
  const middle = (low + high) / 2;
  const share = low * high > 0 && `, ±${percent((high - low) / 2 / Math.abs(middle))}`;
  return `${format(low)} to ${format(high)}${share || ''}`;
}

/** Horizontal bars with long labels. `rows` are `{label, note, value, href}`. */
export function bars(rows, format, { label }) {
  const most = Math.max(...rows.map((row) => row.value)) || 1;
  return h('div', { class: 'bars', role: 'list', 'aria-label': label }, rows.map((row) => h('div', { role: 'listitem' },
    h('div', {}, h(row.href ? 'a' : 'span', { href: row.href }, row.label), row.note && h('small', {}, row.note)),
    h('span', { class: 'num' }, format(row.value)),
    h('span', { class: 'track', 'aria-hidden': 'true' }, h('span', { vars: { '--w': `${(row.value / most) * 100}%` } })))));
}

/** Two small histograms over the same range. `given` are `{histogram, total, css}`; heights are logarithmic. */
export function overlay(given, label) {
  const [W, height] = [260, 90];
  const series = widened(given);
  const { low, high } = series[0].histogram;
  const most = Math.max(...series.flatMap(({ histogram: found, total }) => found.counts.map((value) => value / total)), 1e-12);
  const least = Math.min(...series.map(({ total }) => 1 / total));
  const x = (at) => ((at - low) / (high - low)) * W;
  const y = (share) => height - 14 - logarithm(share, least, most) * (height - 18);
  return s('svg', { class: 'chart', viewBox: `0 0 ${W} ${height}`, role: 'img', 'aria-label': label },
    series.map(({ histogram: found, total, css }) => s('path', { class: css, d: outline({ low, high, counts: found.counts.map((value) => value / total) }, x, y, height - 14) })),
    s('text', { x: 0, y: height - 2 }, number(low)), s('text', { x: W, y: height - 2, 'text-anchor': 'end' }, number(high)));
}

/** The places of values that lie far from the median: more than 5 times the median distance. */
export function outliers(values) {
  const known = values.filter(Number.isFinite);
  if (known.length < 5) return new Set();
  const median = (list) => { const sorted = [...list].sort((a, b) => a - b); return sorted[Math.floor(sorted.length / 2)]; };
  const center = median(known);
  const distance = median(known.map((value) => Math.abs(value - center)));
  const far = Math.max(distance * 5, Math.abs(center) * 0.02, 1e-30);
  return new Set(values.flatMap((value, place) => (Number.isFinite(value) && Math.abs(value - center) > far ? [place] : [])));
}

/** Round numbers of a logarithmic axis between two powers of 10: few, however long it is. */
function powers(least, most) {
  const step = Math.ceil((most - least) / 6);
  const found = [];
  for (let power = Math.floor(least); power <= Math.ceil(most); power += 1) {
    for (const factor of most - least > 2.5 ? [1] : [1, 2, 5]) {
      const exponent = power + Math.log10(factor);
      if (power % step === 0 && exponent >= least && exponent <= most) found.push(factor * 10 ** power);
    }
  }
  return found;
}

/** Places for labels of `{x, y, text, end}`, none over another: those that would be are moved down. */
function apart(labels) {
  const placed = [];
  const extent = ({ x, text, end }) => (end ? [x - text.length * 6.2, x] : [x, x + text.length * 6.2]);
  for (const label of [...labels].sort((a, b) => a.y - b.y)) {
    const [from, to] = extent(label);
    const isOver = (other) => { const [left, right] = extent(other); return left < to && right > from && Math.abs(other.y - label.y) < 13; };
    while (placed.some(isOver)) label.y += 1;
    placed.push(label);
  }
  return labels;
}

/** Size against error: `points` are `{x, y, label, href}`. The axis of errors is logarithmic; errors of 0 are below it. */
export function scatter(points, { height = 320, label, xLabel, yLabel, xFormat, yFormat } = {}) {
  const W = room();
  const [left, top, floor] = [70, 22, height - 46];
  const xs = points.map((point) => point.x);
  const ys = points.map((point) => point.y).filter((y) => y > 0);
  const hasZero = ys.length < points.length;
  const bottom = hasZero && ys.length > 0 ? floor - 34 : floor;
  const pad = (Math.max(...xs) - Math.min(...xs)) * 0.15 || Math.max(...xs) * 0.1 || 1;
  const [low, high] = [Math.max(0, Math.min(...xs) - pad), Math.max(...xs) + pad];
  const [least, most] = [Math.log10(Math.min(...ys)) - 0.3, Math.log10(Math.max(...ys)) + 0.3];
  const x = (at) => left + ((at - low) / (high - low)) * (W - left - 30);
  const y = (at) => (at > 0 ? bottom - ((Math.log10(at) - least) / (most - least)) * (bottom - top) : floor - 12);
  const marks = [...(ys.length > 0 ? powers(least, most) : []), ...(hasZero ? [0] : [])];
  const labels = apart(points.map((point) => {
    const end = x(point.x) > W * 0.75;
    return { x: x(point.x) + (end ? -9 : 9), y: y(point.y) - 8, text: shown(point.label, 40), end };
  }));
  return s('svg', { class: 'chart', viewBox: `0 0 ${W} ${height}`, role: 'img', 'aria-label': label },
    marks.map((at) => s('g', {}, s('line', { class: 'grid', x1: left, x2: W - 30, y1: y(at), y2: y(at) }),
      s('text', { x: left - 8, y: y(at) + 4, 'text-anchor': 'end' }, yFormat(at)))),
    (xFormat === bytes ? byteTicks : ticks)(low, high, Math.max(4, W / 150)).map((at) => s('text', { x: x(at), y: floor + 16, 'text-anchor': 'middle' }, xFormat(at, high))),
    s('line', { class: 'axis', x1: left, x2: W - 30, y1: floor, y2: floor }),
    s('text', { x: W - 30, y: floor + 36, 'text-anchor': 'end' }, xLabel),
    s('text', { x: left, y: top - 10, 'text-anchor': 'start' }, yLabel),
    points.map((point) => s('circle', { class: 'dot', cx: x(point.x), cy: y(point.y), r: 5 })),
    labels.map(({ text, end, ...place }) => s('text', { ...place, 'text-anchor': end ? 'end' : 'start' }, text)));
}

/** A stacked bar with a legend. `parts` are `{label, size, color, note}`. */
export function stack(parts, format) {
  const all = parts.reduce((sum, part) => sum + part.size, 0) || 1;
  return h('div', {},
    h('div', { class: 'stack', 'aria-hidden': 'true' }, parts.map((part) => h('span', { vars: { '--c': part.color, '--w': String(part.size / all) }, title: part.label }))),
    h('ul', { class: 'legend' }, parts.map((part) => h('li', { vars: { '--c': part.color } }, h('i', { 'aria-hidden': 'true' }), `${part.label} `, h('span', { class: 'muted' }, `${format(part.size)}, ${percent(part.size / all)}`)))));
}

/** A line over the positions of a vector, or of the rows or columns of a matrix. */
export function profile(values, { height = 130, label, part = 1, format = number, start = 0, end = values.length } = {}) {
  const W = room(part);
  const [left, top, bottom] = [64, 10, height - 24];
  const finite = values.filter(Number.isFinite);
  let [low, high] = [Math.min(...finite, 0), Math.max(...finite, 0)];
  if (!(high > low)) high = low + 1;
  const step = (W - left - 8) / values.length;
  const y = (value) => bottom - ((value - low) / (high - low)) * (bottom - top);
  const path = line(values.map((value, place) => [left + (place + 0.5) * step, y(value)]));
  return s('svg', { class: 'chart', viewBox: `0 0 ${W} ${height}`, role: 'img', 'aria-label': label },
    ticks(low, high, 4).map((at) => s('g', {}, s('line', { class: 'grid', x1: left, x2: W - 8, y1: y(at), y2: y(at) }),
      s('text', { x: left - 8, y: y(at) + 4, 'text-anchor': 'end' }, format(at)))),
    s('path', { class: 'line', d: path }),
    s('text', { x: left, y: bottom + 16 }, whole(start)), s('text', { x: W - 8, y: bottom + 16, 'text-anchor': 'end' }, whole(end - 1)));
}

