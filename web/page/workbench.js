// Several quantizations of one original: size against error, and the cheapest type of each tensor.

import { h, head, name, notice, section, segments, shortName, shown } from './dom.js';
import { scatter } from './charts.js';
import { bytes, number, percent, plural, quoted, whole } from './format.js';
import { differencesOf, keep, labelsOf, link, pairsOf } from './state.js';
import { pairRows, together, worstTensors } from './compare.js';
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
  const last = (text) => text.split(/[/\\]/).filter(Boolean).pop();
  const found = [...divergences].find(([known]) => known === path) ?? [...divergences].find(([known]) => last(known) === last(path));
  return found ? found[1] : null;
}

/** A name as a regular expression that matches it alone. */
const literal = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');

/**
 * Rules for `quantize --tensor-type`. `picks` are `{stored, dtype}`, by the names of GGUF. Names that differ in the
 * number of their layer alone share a rule.
 */
export function rules(picks) {
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
      const number_ = dtypes.size === 1 ? '[0-9]+' : `(${layers.join('|')})`;
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

export async function show({ a, list, query, signal }) {
  const labels = labelsOf(list).map((label) => shown(label, 60));
  const others = list.map((_, which) => which).filter((which) => which !== a);
  const candidates = (await Promise.all(others.map(async (other) => {
    try {
      const rows = pairRows(await pairsOf(a, other));
      return { other, rows, byName: new Map(rows.map((row) => [row.name, row])), state: differencesOf(a, other, rows.length), isGguf: list[other].container === 'gguf' };
    } catch (error) {
      if (error.name === 'AbortError' || error.kind === 'ended') throw error;
      return { other, error };
    }
  })));
  const usable = candidates.filter((one) => !one.error);
  let limit = Number(query.limit ?? 5);
  let measure = query.measure === 'kl' ? 'kl' : 'rms';
  const status = h('span', { class: 'num', role: 'status' });
  const meter = h('progress', { max: 1, value: 0, 'aria-label': 'Comparison' });
  const [picture, choices, export_, worst] = [h('div', {}), h('p', { class: 'num' }), h('div', {}), h('div', {})];
  const names = [...new Set(usable.flatMap((one) => one.rows.map((row) => row.name)))];
  let rows = [];

  const cellOf = (one, name_) => {
    const row = one.byName.get(name_);
    const found = row && one.state.found[row.pair];
    if (!row) return null;
    return { dtype: row.b, bytes: row.bytesB, stored: row.stored, error: found?.matrix_error ?? null, original: row.bytesA, other: one.other };
  };
  const percentOf = (cell) => (cell?.error === null || !cell ? '' : percent(cell.error));
  const table = new Table({
    label: 'Tensors and candidates', rows: [], height: '60vh', empty: 'No matrix has been compared yet.',
    columns: [
      { label: 'Tensor', width: 'minmax(130px, 1.4fr)', wraps: true, sort: (row) => row.name, cell: (row) => shortName(row.name) },
      ...usable.map((one, place) => ({ label: labels[one.other], width: 'minmax(110px, 1fr)', right: true, most: true, hide: place > 1 ? 'hide-s' : '', sort: (row) => row.candidates[place]?.error ?? null,
        cell: (row) => { const cell = row.candidates[place]; return cell && cell.error !== null ? h('a', { href: link('compare', a, one.other, row.name), class: row.chosen === cell ? 'chosen' : null }, `${shown(cell.dtype, 12)} ${percentOf(cell)}`) : ''; } })),
      { label: 'Cheapest', width: '96px', narrow: '72px', right: true, sort: (row) => row.chosen?.dtype ?? null, cell: (row) => (row.chosen ? h('span', { class: row.within ? null : 'bad' }, shown(row.chosen.dtype, 12)) : '') },
    ],
    onsort: (sort) => keep({ sort }),
  });
  table.sortAs(query.sort);

  function choose() {
    for (const row of rows) {
      const { chosen, within } = pick(row, limit / 100);
      [row.chosen, row.within] = [chosen, within];
    }
    table.show(rows);
    const picked = rows.filter((row) => row.chosen);
    const size = picked.reduce((sum, row) => sum + row.chosen.bytes, 0);
    const original = picked.reduce((sum, row) => sum + row.chosen.original, 0);
    const over = picked.filter((row) => !row.within).length;
    choices.textContent = picked.length === 0 ? 'No matrix has been compared yet.'
      : `${plural(picked.length, 'matrix').replace('matrixs', 'matrices')}: ${bytes(size)} instead of ${bytes(original)}${over > 0 ? `; ${whole(over)} exceed the limit in every candidate and have the least error` : ''}`;
    drawRules(picked);
  }

  function drawRules(picked) {
    const usableRules = picked.filter((row) => usable.find((one) => one.other === row.chosen.other).isGguf);
    if (usableRules.length === 0) {
      export_.replaceChildren(h('p', { class: 'muted' }, 'Rules for quantize need a candidate in a GGUF file, which has the names and types that it takes.'));
      return;
    }
    const list_ = rules(usableRules.map((row) => ({ stored: row.chosen.stored, dtype: row.chosen.dtype })));
    const counts = new Map();
    for (const row of usableRules) counts.set(row.chosen.other, (counts.get(row.chosen.other) ?? 0) + row.chosen.bytes);
    const base_ = list[[...counts].sort((x, y) => y[1] - x[1])[0][0]].dtype ?? 'Q8_0';
    const command = `weighbridge quantize ${quoted(list[a].path)} quantized.gguf ${base_} ${list_.map((rule) => `--tensor-type ${quoted(rule)}`).join(' ')}`;
    const left = picked.length - usableRules.length;
    export_.replaceChildren(
      h('pre', { class: 'text', tabindex: 0, role: 'region', 'aria-label': 'Rules for quantize' }, list_.map((rule) => `--tensor-type '${rule}'`).join('\n')),
      ...(left > 0 ? [h('p', { class: 'muted small' }, `${plural(left, 'tensor')} whose cheapest candidate is no GGUF file have no rule.`)] : []),
      take.command(command));
  }

  function draw() {
    const done = usable.reduce((sum, one) => sum + one.state.found.length, 0);
    const all = usable.reduce((sum, one) => sum + one.rows.length, 0);
    meter.value = done / Math.max(1, all);
    meter.hidden = usable.every((one) => one.state.done || one.state.error);
    status.textContent = meter.hidden ? `${plural(usable.length, 'candidate')} compared` : `${whole(done)} of ${whole(all)} pairs compared`;
    const points = usable.filter((one) => one.state.done).map((one) => ({
      other: one.other, x: list[one.other].file_bytes, error: together(one.rows, one.state.found).error, kl: divergenceOf(list[one.other].path),
      label: labels[one.other], href: link('compare', a, one.other),
    }));
    const known = points.filter((point) => (measure === 'kl' ? point.kl : point.error) !== null);
    const drawn = known.length > 0 && scatter(known.map((point) => ({ ...point, y: measure === 'kl' ? point.kl : point.error })), measure === 'kl'
      ? { label: 'Size against KL divergence', xLabel: 'size', yLabel: 'mean KL divergence, nats', xFormat: bytes, yFormat: number }
      : { label: 'Size against relative RMS', xLabel: 'size', yLabel: 'relative RMS', xFormat: bytes, yFormat: percent });
    const file = h('input', { type: 'file', class: 'visually-hidden', accept: '.json', tabindex: -1, 'aria-label': 'Report of quality', onchange: async () => {
      try {
        const count = takeQuality(await file.files[0].text());
        if (count === 0) throw new Error('it has no model with a divergence');
        measure = 'kl';
        draw();
      } catch (error) {
        note.replaceChildren(notice('Error', `This is no report of weighbridge quality --json: ${error.message}`));
      }
    } });
    const note = h('div', { class: 'notices' });
    picture.replaceChildren(section('Size against error', `Every other model against ${labels[a]}`, [
      divergences.size > 0 && segments('Measure', [['rms', 'Relative RMS'], ['kl', 'KL divergence']], measure, (value) => { measure = value; keep({ measure: value === 'kl' ? value : null }); draw(); }),
      h('button', { type: 'button', class: 'button', onclick: () => file.click(), title: 'The JSON that weighbridge quality --json printed' }, 'Add quality JSON'), file,
      drawn && take.button('PNG', () => take.picture('size against error', drawn), 'Save the picture'),
      drawn && take.button('CSV', () => take.csv('size against error', ['model', 'bytes', 'relative RMS', 'mean KL divergence'], points.map((point) => [point.label, point.x, point.error, point.kl])), 'Save the numbers'),
    ].filter(Boolean), drawn || h('p', { class: 'muted' }, measure === 'kl' ? 'The report is about none of these models.' : 'The models are being compared…'),
    h('ul', { class: 'legend' }, points.map((point) => h('li', {}, h('a', { href: point.href }, point.label), h('span', { class: 'muted' }, ` ${bytes(point.x)}, ${point.error === null ? 'no matrix' : percent(point.error)}${point.kl === null ? '' : `, ${number(point.kl)} nats`}`)))),
    note,
    divergences.size === 0 && take.command(`weighbridge quality --json ${[a, ...others].map((which) => quoted(list[which].path)).join(' ')} > quality.json`)));
    rows = names.map((name_) => ({ name: name_, candidates: usable.map((one) => cellOf(one, name_)), chosen: null, within: false })).filter((row) => row.candidates.some((cell) => cell && cell.error !== null));
    choose();
    const smallest = points.filter((point) => point.error !== null).sort((x, y) => y.error - x.error)[0];
    if (meter.hidden && smallest && worst.childNodes.length === 0) {
      const one = usable.find(({ other }) => other === smallest.other);
      worst.replaceChildren(section('Ten worst tensors', `of ${labels[smallest.other]}, the candidate with the largest error`, null, worstTensors({ a, b: one.other, rows: one.rows, differences: one.state.found, signal })));
    }
  }

  let drawn = 0;
  for (const one of usable) {
    one.state.listen((state) => {
      const now = performance.now();
      if (!state.done && !state.error && now - drawn < 700) return;
      drawn = now;
      draw();
    }, signal);
  }
  draw();
  const limitInput = h('input', { type: 'number', min: 0, max: 100, step: 'any', value: limit, 'aria-label': 'Largest error in percent', oninput: () => {
    if (!(Number(limitInput.value) >= 0)) return;
    limit = Number(limitInput.value);
    keep({ limit: limit === 5 ? null : limit });
    choose();
  } });
  const csv = () => take.csv('cheapest types', ['tensor', ...usable.flatMap((one) => [`${labels[one.other]} dtype`, `${labels[one.other]} error`]), 'cheapest'],
    table.rows.map((row) => [row.name, ...row.candidates.flatMap((cell) => [cell?.dtype, cell?.error]), row.chosen?.dtype]));
  return {
    title: 'Compare',
    nodes: [
      head('Compare', { crumb: `${plural(usable.length, 'candidate')} against one original`, sub: [status, meter],
        tools: h('label', { class: 'field' }, 'Original', h('select', { onchange: (event) => { location.hash = link('compare', event.target.value, 'all'); } }, labels.map((text, which) => h('option', { value: which, selected: which === a }, text)))) }),
      ...candidates.filter((one) => one.error).map((one) => h('div', { class: 'notices' }, notice('Note', `${labels[one.other]}: ${one.error.message}`))),
      picture,
      section('Cheapest type of each matrix', null, [h('label', { class: 'field' }, 'Error at most', limitInput, '%'), take.button('CSV', csv, 'Save the rows')], choices, table.node),
      section('Rules for quantize', 'The types above, as --tensor-type takes them', null, export_),
      worst,
    ],
  };
}
