// One tensor in two models: overlaid histograms, and a heat map of the difference.

import { busy, facts, h, head, notice, shown, titleName, trouble } from './dom.js';
import { elements, number, percent, quoted, shape, sides, whole } from './format.js';
import { bothSides, clippingOf, colorKey, isSpoiled } from './differences.js';
import { ask } from './source.js';
import { labelsOf, link, pairsOf } from './state.js';
import * as take from './take.js';
import { distribution, matrix, position } from './tensor.js';

const WORDS = {
  identical: 'The packed bytes are identical, so the values are too.',
  shapes: 'The shapes differ, so the values cannot be compared.',
};

/** The facts about clipped values. `href` gives the address of a part of the tensor. */
function clippedFacts(found, dims, href) {
  if (!found) return [];
  const { worst } = found;
  const place = worst && ['at ', position([worst.row, worst.column], sides(dims), href)];
  return [
    ['Clipped', whole(found.clipped), `values, ${percent(found.clipped / found.elements)}`],
    ['Their part of the squared error', found.clipped > 0 ? percent(found.share_of_error) : null],
    ['Clipped most', worst ? `${number(worst.a)} to ${number(worst.b)}` : null, place],
  ];
}

export async function show({ a, b, list, name: wanted, query, signal }) {
  const table = await pairsOf(a, b);
  const pair = table.name.indexOf(wanted);
  if (pair < 0) throw new Error(`the two models have no tensor ${shown(wanted, 200)} in common`);
  const all = labelsOf(list);
  const labels = [all[a], all[b]];
  const dtypes = [table.dtypes[table.dtype_a[pair]], table.dtypes[table.dtype_b[pair]]];
  const dims = table.shape[pair];
  const both = { a, b, pair };
  const here = (part) => link('compare', a, b, wanted, part);
  const place = h('div', {}, busy('Comparing the values…'));
  const clippings = clippingOf(both, signal).catch(() => null);
  const numbers = ask('differences', both, signal).then(async ({ differences: [found] }) => {
    const clipping = await clippings;
    if (found.outcome !== 'values') {
      place.replaceChildren(h('div', { class: 'notices' }, notice('Note', found.reason ?? WORDS[found.outcome])));
      return found;
    }
    const { worst } = found;
    place.replaceChildren(facts([
      ['Relative RMS', percent(found.relative_rms), isSpoiled(found) && 'of the values that are finite in both'],
      ['Cosine', found.cosine === null ? '–' : found.cosine.toFixed(7)],
      ['RMS', number(found.rms_difference)],
      ['Largest difference', number(found.max_difference), worst && worst.at.length > 0 && ['at ', position(worst.at, dims, here)]],
      ['There, in A', worst ? number(worst.a) : '–'],
      ['There, in B', worst ? number(worst.b) : '–'],
      ['Values that differ', percent(found.differing / Math.max(1, found.elements)), whole(found.differing)],
      ...clippedFacts(clipping, dims, here),
    ]));
    return found;
  });
  numbers.catch((error) => place.replaceChildren(trouble(error) ?? ''));
  const side = async (which, range, until) => {
    const [found] = (await ask('statistics', { ...both, side: which, bins: 160, low: range?.[0], high: range?.[1] }, until)).tensors;
    if (found.reason) throw new Error(found.reason);
    return found;
  };
  const nodes = [
    head(titleName(wanted), {
      crumb: [h('a', { href: link('compare', a, b) }, 'Compare'), ` · ${shown(labels[0], 50)} and ${shown(labels[1], 50)}`],
      sub: [h('span', {}, `A ${shown(dtypes[0], 30)}, B ${shown(dtypes[1], 30)}`), h('span', { class: 'num' }, shape(dims))],
      tools: take.button('Copy name', () => take.copy(wanted, 'Name copied')),
    }),
    place,
  ];
  if (elements(dims) > 0) {
    const spread = await distribution({
      signal, label: `${wanted} histograms`,
      load: async (range, until) => {
        const [first, second] = await bothSides((which, part) => side(which, part, until), range);
        return [{ found: first, label: 'A', css: 'fill-a' }, { found: second, label: 'B', css: 'fill-b' }];
      },
    });
    nodes.push(spread.node, colorKey(...labels));
    const error = h('div', {});
    nodes.push(error);
    numbers.then((found) => {
      if (found.outcome !== 'values') return;
      error.append(...matrix({ dims, signal, block: null, query, title: `${wanted} difference`, heading: 'Difference, B minus A', words: ['Mean', 'mean difference'],
        get: (parameters, until, told) => ask('grid', { ...both, side: 'difference', ...parameters }, until, told) }));
    }, () => { /* shown above */ });
  }
  nodes.push(take.command(`weighbridge diff ${quoted(list[a].path)} ${quoted(list[b].path)} --filter ${quoted(wanted)} --all`));
  return { title: shown(wanted, 60), nodes };
}
