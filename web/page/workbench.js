// Several quantizations of one original: size against error, and the cheapest type of each tensor.

import { h, head, notice, section, segments, shortName, shown } from './dom.js';
import { scatter } from './charts.js';
import { base, bytes, number, percent, plural, quoted, whole } from './format.js';
import { differencesOf, keep, labelsOf, link, pairsOf } from './state.js';
import { isSpoiled, pairRows, together, worstTensors } from './differences.js';
import { Table } from './table.js';
import * as take from './take.js';

/** The reports of `quality` that were given, by the path of a model. They stay while the page is open. */
const divergences = new Map();

/** Takes the divergences from a report of `quality --json`. Gives how many models it is about. */
function takeQuality(text) {
  const report = JSON.parse(text);
  const known = (report.models ?? []).filter((model) => Number.isFinite(model.divergence?.mean));
  for (const model of known) divergences.set(model.path, model.divergence.mean);
  return known.length;
}

/** The divergence of a model: by its path, else by the last part of it, which is all that a browser knows. */
function divergenceOf(path) {
  const found = [...divergences].find(([known]) => known === path) ?? [...divergences].find(([known]) => base(known) === base(path));
  return found ? found[1] : null;
}

/** A name as a regular expression that matches it alone. */
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/**
 * Rules for `quantize --tensor-type`. `picks` are `{stored, dtype}`, by the names of GGUF. Names that differ in the
 * number of their layer alone share a rule; unless all tensors are picked, it names the layers.
 */
export function rules(picks, areAll) {
  const kinds = new Map();
  for (const { stored, dtype } of picks) {
    const found = /^(.*?\.)(\d+)(\..*)$/.exec(stored);
    const kind = found ? `${found[1]}\u0000${found[3]}` : stored;
    if (!kinds.has(kind)) kinds.set(kind, new Map());
    const dtypes = kinds.get(kind);
    if (!dtypes.has(dtype)) dtypes.set(dtype, []);
    dtypes.get(dtype).push(found ? found[2] : null);
  }
  return [...kinds].flatMap(([kind, dtypes]) => {
    const [before, after] = kind.split('\u0000');
    return [...dtypes].map(([dtype, layers]) => {
      const number_ = areAll && dtypes.size === 1 ? '[0-9]+' : `(${[...layers].sort((x, y) => x - y).join('|')})`;
      const pattern = after === undefined ? literal(before) : `${literal(before)}${number_}${literal(after)}`;
      return `^${pattern}$=${dtype.toLowerCase()}`;
    });
  });
}

/** The cheapest candidate of a row whose error is within the limit, else the one with the least error. */
function pick(row, limit) {
  const known = row.candidates.filter((one) => one && one.error !== null);
  const within = known.filter((one) => one.error <= limit).sort((x, y) => x.bytes - y.bytes || x.error - y.error);
  return { chosen: within[0] ?? [...known].sort((x, y) => x.error - y.error)[0] ?? null, within: within.length > 0 };
}

/** The largest error in percent, unless the address has another. */
const LIMIT = 5;

/** The milliseconds between two pictures of comparisons that go on. */
const PAUSE = 700;

/** How the axis of errors is drawn: by the relative RMS, or by the divergence of a report of `quality`. */
const MEASURES = {
  rms: { label: 'Size against relative RMS', yLabel: 'relative RMS', yFormat: percent, of: (point) => point.error },
  kl: { label: 'Size against KL divergence', yLabel: 'mean KL divergence, nats', yFormat: number, of: (point) => point.kl },
};

/** The comparison of another model with the original, or the error that prevents it. */
async function candidate(list, a, other) {
  try {
    const rows = pairRows(await pairsOf(a, other));
    return { other, rows, byName: new Map(rows.map((row) => [row.name, row])), state: differencesOf(a, other, rows.length), isGguf: list[other].container === 'gguf' };
  } catch (error) {
    if (error.name === 'AbortError' || error.kind === 'ended') throw error;
    return { other, error };
  }
}

/** What a candidate has for a tensor; null if it lacks it. */
function cellOf(one, tensor) {
  const row = one.byName.get(tensor);
  if (!row) return null;
  const error = one.state.found[row.pair]?.matrix_error ?? null;
  return { isSpoiled: isSpoiled(one.state.found[row.pair]), dtype: row.b, bytes: row.bytesB, stored: row.stored, needsImatrix: row.needsImatrix, original: row.bytesA, other: one.other, error };
}

/** The error of a cell as text. */
const errorOf = (cell) => (cell.isSpoiled ? 'NaN, ∞' : percent(cell.error));

const hasError = (cell) => cell !== null && cell.error !== null;

class Workbench {
  constructor({ a, list, query, signal }, candidates) {
    Object.assign(this, { a, list, signal, rows: [], drawn: 0 });
    this.labels = labelsOf(list).map((label) => shown(label, 60));
    this.failed = candidates.filter((one) => one.error);
    this.usable = candidates.filter((one) => !one.error);
    this.tensors = [...new Set(this.usable.flatMap((one) => one.rows.map((row) => row.name)))];
    const limit = Number(query.limit ?? LIMIT);
    this.limit = limit >= 0 ? limit : LIMIT;
    this.measure = query.measure === 'kl' ? 'kl' : 'rms';
    this.status = h('span', { class: 'num', role: 'status' });
    this.meter = h('progress', { max: 1, value: 0, 'aria-label': 'Comparison' });
    [this.picture, this.choices, this.rules, this.worst] = [h('div', {}), h('p', { class: 'num', vars: { 'margin-bottom': '12px' } }), h('div', {}), h('div', {})];
    this.table = this.cheapest();
    this.table.sortAs(query.sort);
    for (const one of this.usable) one.state.listen((state) => this.heard(state), signal);
    this.draw();
  }

  heard(state) {
    const now = performance.now();
    if (!state.done && !state.error && now - this.drawn < PAUSE) return;
    this.drawn = now;
    this.draw();
  }

  /** The table of tensors and candidates. */
  cheapest() {
    const cell = (one, row, place) => {
      const found = row.candidates[place];
      if (!hasError(found)) return '';
      return h('a', { href: link('compare', this.a, one.other, row.name), class: row.chosen === found ? 'chosen' : null }, `${shown(found.dtype, 12)} ${errorOf(found)}`);
    };
    const cheapest = ({ chosen, within }) => h('span', { class: within ? null : 'bad' }, shown(chosen.dtype, 12), h('span', { class: 'only-s' }, ` ${errorOf(chosen)}`));
    return new Table({
      label: 'Tensors and candidates', rows: [], height: '60vh', empty: 'No matrix.', onsort: (sort) => keep({ sort }),
      columns: [
        { label: 'Tensor', width: 'minmax(130px, 1.4fr)', narrow: 'minmax(110px, 1fr)', wraps: true, sort: (row) => row.name, cell: (row) => shortName(row.name) },
        ...this.usable.map((one, place) => ({ label: this.labels[one.other], width: 'minmax(110px, 1fr)', right: true, most: true, hide: 'hide-s',
          sort: (row) => row.candidates[place]?.error ?? null, cell: (row) => cell(one, row, place) })),
        { label: 'Cheapest', width: '96px', narrow: '118px', right: true, sort: (row) => row.chosen?.dtype ?? null, cell: (row) => (row.chosen ? cheapest(row) : '') },
      ],
    });
  }

  get isDone() { return this.usable.every((one) => one.state.done || one.state.error); }

  /** What is said if no matrix has been compared. */
  get nothing() { return this.isDone ? 'No candidate has a matrix in common with the original.' : 'No matrix has been compared yet.'; }

  /** Marks the cheapest candidate of each row, and says what they take together. */
  choose() {
    for (const row of this.rows) {
      const { chosen, within } = pick(row, this.limit / 100);
      [row.chosen, row.within] = [chosen, within];
    }
    this.table.show(this.rows);
    const picked = this.rows.filter((row) => row.chosen);
    const sum = (size) => bytes(picked.reduce((all, row) => all + row.chosen[size], 0));
    const over = picked.filter((row) => !row.within).length;
    this.choices.textContent = picked.length === 0 ? this.nothing
      : `${plural(picked.length, 'matrix', 'matrices')}: ${sum('bytes')} instead of ${sum('original')}${over > 0 ? `; ${whole(over)} exceed the limit in every candidate and have the least error` : ''}`;
    this.drawRules(picked);
  }

  drawRules(picked) {
    const ruled = picked.filter((row) => this.usable.find((one) => one.other === row.chosen.other).isGguf);
    if (ruled.length === 0) {
      this.rules.replaceChildren(h('p', { class: 'muted' }, 'Rules for quantize need a candidate in a GGUF file, which has the names and types that it takes.'));
      return;
    }
    const sizes = new Map();
    for (const { chosen } of ruled) sizes.set(chosen.other, (sizes.get(chosen.other) ?? 0) + chosen.bytes);
    const [[most]] = [...sizes].sort((x, y) => y[1] - x[1]);
    const fileType = this.list[most].dtype ?? 'Q8_0';
    const left = picked.length - ruled.length;
    const list = rules(ruled.map(({ chosen: { stored, dtype } }) => ({ stored, dtype })), left === 0);
    const needsImatrix = ruled.some(({ chosen }) => chosen.needsImatrix);
    this.rules.replaceChildren(
      h('pre', { class: 'text lines', tabindex: 0, role: 'region', 'aria-label': 'Rules for quantize' }, list.map((rule) => `--tensor-type '${rule}'`).join('\n')),
      ...(left > 0 ? [h('p', { class: 'muted small' }, `${plural(left, 'tensor')} whose cheapest candidate is no GGUF file have no rule: quantize gives them the types of ${fileType}, whatever their error.`)] : []),
      ...(needsImatrix ? [h('p', { class: 'muted small' }, 'Types with so few bits require an importance matrix, which llama-imatrix writes to imatrix.gguf.')] : []),
      take.command(`weighbridge quantize ${quoted(this.list[this.a].path)} quantized.gguf ${fileType} ${list.map((rule) => `--tensor-type ${quoted(rule)}`).join(' ')}${needsImatrix ? ' --imatrix imatrix.gguf' : ''}`));
  }

  /** The candidates that are compared, with what the picture shows of them. */
  points() {
    return this.usable.filter((one) => one.state.done).map((one) => ({
      other: one.other, x: this.list[one.other].file_bytes, error: together(one.rows, one.state.found).error, kl: divergenceOf(this.list[one.other].path),
      label: this.labels[one.other], href: link('compare', this.a, one.other),
    }));
  }

  draw() {
    const sum = (count) => this.usable.reduce((all, one) => all + count(one), 0);
    const [done, all] = [sum((one) => one.state.found.length), sum((one) => one.rows.length)];
    this.meter.value = done / Math.max(1, all);
    this.meter.hidden = this.isDone;
    this.status.textContent = this.meter.hidden ? `${plural(this.usable.length, 'candidate')} compared` : `${whole(done)} of ${whole(all)} pairs compared`;
    const points = this.points();
    this.drawPicture(points);
    const withCells = this.tensors.map((tensor) => ({ name: tensor, candidates: this.usable.map((one) => cellOf(one, tensor)), chosen: null, within: false }));
    this.rows = withCells.filter((row) => row.candidates.some(hasError));
    this.choose();
    this.drawWorst(points);
  }

  drawPicture(points) {
    const measure = MEASURES[this.measure];
    const known = points.map((point) => ({ ...point, y: measure.of(point) })).filter((point) => point.y !== null);
    const drawn = known.length > 0 && scatter(known, { ...measure, xLabel: 'size', xFormat: bytes });
    const csv = () => take.csv('size against error', ['model', 'bytes', 'relative RMS', 'mean KL divergence'], points.map((point) => [point.label, point.x, point.error, point.kl]));
    const legend = (point) => ` ${bytes(point.x)}, ${point.error === null ? 'no matrix' : percent(point.error)}${point.kl === null ? '' : `, ${number(point.kl)} nats`}`;
    const note = h('div', { class: 'notices' });
    const others = this.usable.map((one) => one.other);
    this.picture.replaceChildren(section('Size against error', `Every other model against ${this.labels[this.a]}`, [
      divergences.size > 0 && segments('Measure', [['rms', 'Relative RMS'], ['kl', 'KL divergence']], this.measure, (value) => { this.measure = value; keep({ measure: value === 'kl' ? value : null }); this.draw(); }),
      this.addReport(note),
      drawn && take.button('PNG', () => take.picture('size against error', drawn), 'Save the picture'),
      drawn && take.button('CSV', csv, 'Save the numbers'),
    ], drawn || h('p', { class: 'muted' }, this.measure === 'kl' ? 'The report is about none of these models.' : this.nothing),
    h('ul', { class: 'legend' }, points.map((point) => h('li', {}, h('a', { href: point.href }, point.label), h('span', { class: 'muted' }, legend(point))))),
    note,
    divergences.size === 0 && take.command(`weighbridge quality --json ${[this.a, ...others].map((which) => quoted(this.list[which].path)).join(' ')} > quality.json`)));
  }

  /** The button that takes a report of `quality`; what is wrong with it is said in `note`. */
  addReport(note) {
    const file = h('input', { type: 'file', class: 'visually-hidden', accept: '.json', tabindex: -1, 'aria-label': 'Report of quality', onchange: async () => {
      try {
        const count = takeQuality(await file.files[0].text());
        if (count === 0) throw new Error('it has no model with a divergence');
        this.measure = 'kl';
        this.draw();
      } catch (error) {
        note.replaceChildren(notice('Error', `This is no report of weighbridge quality --json: ${error.message}`));
      }
    } });
    return [h('button', { type: 'button', class: 'button', onclick: () => file.click(), title: 'The JSON that weighbridge quality --json printed' }, 'Add quality JSON'), file];
  }

  /** Shows the worst tensors of the candidate with the largest error, once all are compared. */
  drawWorst(points) {
    const least = points.filter((point) => point.error !== null).sort((x, y) => y.error - x.error)[0];
    if (!this.meter.hidden || !least || this.worst.childNodes.length > 0) return;
    const one = this.usable.find(({ other }) => other === least.other);
    this.worst.replaceChildren(worstTensors({ a: this.a, b: one.other, labels: this.labels, rows: one.rows, differences: one.state.found, signal: this.signal,
      of: `B is ${this.labels[least.other]}, the candidate with the largest error` }));
  }

  csv() {
    const heads = this.usable.flatMap((one) => [`${this.labels[one.other]} dtype`, `${this.labels[one.other]} error`]);
    take.csv('cheapest types', ['tensor', ...heads, 'cheapest'], this.table.rows.map((row) => [row.name, ...row.candidates.flatMap((cell) => [cell?.dtype, cell?.error]), row.chosen?.dtype]));
  }

  nodes() {
    const limit = h('input', { type: 'number', min: 0, max: 100, step: 'any', value: this.limit, 'aria-label': 'Largest error in percent', oninput: () => {
      if (!(Number(limit.value) >= 0)) return;
      this.limit = Number(limit.value);
      keep({ limit: this.limit === LIMIT ? null : this.limit });
      this.choose();
    } });
    const original = h('select', { onchange: (event) => { location.hash = link('compare', event.target.value, 'all'); } },
      this.labels.map((text, which) => h('option', { value: which, selected: which === this.a }, text)));
    return [
      head('Compare', { crumb: `${plural(this.usable.length, 'candidate')} against one original`, sub: [this.status, this.meter], tools: h('label', { class: 'field' }, 'Original', original) }),
      ...this.failed.map((one) => h('div', { class: 'notices' }, notice('Note', `${this.labels[one.other]}: ${one.error.message}`))),
      this.picture,
      section('Cheapest type of each matrix', null, [h('label', { class: 'field' }, 'Error at most', limit, '%'), take.button('CSV', () => this.csv(), 'Save the rows')], this.choices, this.table.node),
      section('Rules for quantize', 'The types above, as --tensor-type takes them', null, this.rules),
      this.worst,
    ];
  }
}

export async function show(at) {
  const others = at.list.map((_, which) => which).filter((which) => which !== at.a);
  const candidates = await Promise.all(others.map((other) => candidate(at.list, at.a, other)));
  return { title: 'Compare', nodes: new Workbench(at, candidates).nodes() };
}
