// What is odd in a model: each with the place, and the command that shows it.

import { busy, h, head, name, section, shortName, shown, trouble } from './dom.js';
import { base, bytes, plural, quoted, sides, whole } from './format.js';
import { ask } from './source.js';
import { limits, link, tensors } from './state.js';
import * as take from './take.js';
import { span } from './tensor.js';

/** The kinds of findings, in words. */
const kinds = ({ far, alike, growth }) => ({
  unread: ['Not readable', 'The values of these tensors cannot be read.'],
  'not-finite': ['NaN and infinities', 'One such value spoils every result that depends on it.'],
  'dead-rows': ['Rows that are 0', 'In an embedding: tokens that were never trained.'],
  'dead-columns': ['Columns that are 0', 'An input that has no effect.'],
  'dead-expert': ['Experts that are 0', 'All values of the expert are 0.'],
  'alike-experts': ['Experts that are alike', `The cosine of their values exceeds about ${alike}.`],
  'duplicate-layer': ['Layers that are copies', 'Every tensor of the layer has the values of another layer.'],
  duplicate: ['Tensors with the same values', 'A matrix that is stored twice.'],
  'small-router-row': ['Experts that the router hardly tells apart', `The root mean square of the row is less than the median divided by ${far}.`],
  'outlier-rows': ['Outlier rows', `The root mean square exceeds ${far} times the median of the rows.`],
  'outlier-columns': ['Outlier columns', `The root mean square exceeds ${far} times the median of the columns.`],
  'growing-norms': ['Norms that grow', `The root mean square of the last layer is at least ${growth} times that of the first.`],
});

/** Models of more bytes are read only when asked. */
const SMALL = 1 << 30;

/** The findings by model: reading all values takes long. */
const known = new Map();

/** Whether a finding is about a single row. */
const isRow = ({ rows }) => rows !== undefined && rows[1] - rows[0] === 1;

/** The command that shows a finding: the values of its row, or what the program finds in the tensor. */
const command = (path, one) => (isRow(one) ? `weighbridge dump ${quoted(path)} ${quoted(one.tensor)} --rows ${one.rows[0]} --all`
  : `weighbridge inspect ${quoted(path)} --findings --filter ${quoted(one.tensor)}`);

/** The rows or columns to look at, of so many: those around a single one, and the first if a finding is about none. */
const part = (range, count) => {
  if (!range) return `0-${Math.min(64, count)}`;
  return range[1] - range[0] === 1 ? span(range[0], count) : `${range[0]}-${range[1]}`;
};

export async function show({ model, list, signal }) {
  const { path } = list[model];
  const key = `${path} ${list[model].file_bytes}`;
  const [table, words] = [await tensors(model), kinds(await limits())];
  const shapes = new Map(table.name.map((stored, at) => [stored, table.shape[at]]));
  const place = h('div', {});
  const status = h('p', { class: 'num', role: 'status' }, '');
  const address = (one) => {
    const [rows, columns] = sides(shapes.get(one.tensor) ?? []);
    const near = one.rows || one.columns ? { rows: part(one.rows, rows), columns: part(one.columns, columns) } : {};
    return link(model, 'tensor', one.tensor, near);
  };
  const draw = (found) => {
    status.textContent = `${plural(found.total, 'finding')} in ${plural(found.tensors, 'tensor')}`;
    const groups = Object.entries(words).map(([kind, text]) => [kind, text, found.findings.filter((one) => one.kind === kind)]);
    place.replaceChildren(
      ...groups.filter(([, , some]) => some.length > 0).map(([kind, [title, text], some]) => section(`${title}: ${whole(some.length)}`, text, null,
        h('ul', { class: 'findings', 'data-kind': kind }, some.slice(0, 50).map((one) => h('li', {}, h('a', { href: address(one) }, shortName(one.tensor)), h('span', {}, shown(one.text, 300)),
          h('span', { class: 'as' }, h('code', { dir: 'ltr' }, command(path, one)), h('button', { type: 'button', class: 'quiet', onclick: () => take.copy(command(path, one), 'Command copied'), 'aria-label': `Copy the command for ${shown(one.tensor, 80)}` }, 'Copy'))))),
        some.length > 50 && h('p', { class: 'muted small' }, `and ${whole(some.length - 50)} more: the JSON has them`))),
      ...(found.findings.length === 0 ? [h('p', { class: 'muted' }, 'No NaN, no rows or columns that are 0 or stand out, no copies, no norms that grow.')] : []),
      ...(found.total > found.findings.length ? [h('p', { class: 'muted small' }, `${whole(found.findings.length)} of ${whole(found.total)} findings are listed.`)] : []),
      h('p', {}, h('a', { href: link(model, 'layers') }, 'Layers that are far from the others')));
  };
  const run = async () => {
    const waiting = busy('Reading all values…');
    place.replaceChildren(waiting);
    try {
      if (!known.has(key)) {
        known.set(key, await ask('findings', { model }, signal, (share, total) => {
          waiting.lastChild.textContent = `Reading all values… ${Math.floor(share * 100)} %${total ? ` of ${bytes(total)}` : ''}`;
        }));
      }
      if (!signal.aborted) draw(known.get(key));
    } catch (error) {
      if (!signal.aborted) place.replaceChildren(trouble(error) ?? '');
    }
  };
  if (known.has(key) || list[model].stored_bytes <= SMALL) run();
  else place.replaceChildren(h('p', {}, `Every value is read twice: ${bytes(list[model].stored_bytes)}.`), h('button', { type: 'button', class: 'button primary', onclick: run }, 'Read all values'));
  return {
    title: 'Findings',
    nodes: [
      head('Findings', { crumb: name(base(path), 80), sub: [status], tools: take.button('JSON', () => known.has(key) && take.json(`${base(path)} findings`, known.get(key)), 'Save the findings') }),
      place,
      take.command(`weighbridge inspect ${quoted(path)} --findings`),
    ],
  };
}
