// The frame of the page: which view is shown, for which model.

import { busy, h, head, s, shown, trouble } from './dom.js';
import { bytes, percent, quoted } from './format.js';
import { watchReading } from './source.js';
import { labelsOf, link, models } from './state.js';
import { placesOf, restore } from './table.js';
import * as take from './take.js';
import * as compare from './compare.js';
import * as findings from './findings.js';
import * as layers from './layers.js';
import * as overview from './overview.js';
import * as pair from './pair.js';
import * as tensor from './tensor.js';
import * as tensors from './tensors.js';
import * as tokens from './tokens.js';
import * as workbench from './workbench.js';

const VIEWS = { overview, tensors, tensor, layers, findings, tokens };
const NAMES = [['overview', 'Overview'], ['tensors', 'Tensors'], ['layers', 'Layers'], ['findings', 'Findings'], ['tokens', 'Tokens']];

/** The view for an address that names nothing. */
const unknown = {
  show: async ({ list }) => ({ title: 'No such view', nodes: [
    head('There is no such view', { sub: `The address ${shown(location.hash, 200)} names none.` }),
    h('p', {}, h('a', { href: link(...start(list)) }, 'Show the first view')),
  ] }),
};

/** The first view: with several models, what differs. */
const start = (list) => (list.length > 1 ? comparison(list, 0, 1) : [0, 'overview']);

/** The steps to the comparison: of two models, or of all others with one. */
const comparison = (list, a, b) => (list.length > 2 ? ['compare', a, 'all'] : ['compare', a, b]);

const main = document.getElementById('main');
let leaving = null;

/** The view that opens files, where the page is without the program. */
const files = document.documentElement.dataset.source === 'files' ? await import('./files.js') : null;

/** The view that an address names. */
function parse(list) {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  let steps;
  try { steps = path.split('/').filter((step) => step !== '').map(decodeURIComponent); } catch { steps = ['?']; }
  const parameters = Object.fromEntries(new URLSearchParams(query));
  if (files && (list.length === 0 || steps[0] === 'open')) return { view: files, kind: 'open', model: 0, name: '', query: parameters };
  const at = (kind, view, model, rest) => ({ kind, view, model, query: parameters, name: '', ...rest });
  if (steps.length === 0) steps = start(list).map(String);
  const known = (text) => /^\d+$/.test(text ?? '') && Number(text) < list.length;
  if (steps[0] === 'compare' && known(steps[1] ?? '0')) {
    const [a, b] = [Number(steps[1] ?? 0), steps[2] ?? '1'];
    if (b === 'all' && steps.length === 3) return at('compare', workbench, a, { a, b: null });
    if (known(b)) return at('compare', steps[3] === undefined ? compare : pair, a, { a, b: Number(b), name: steps.slice(3).join('/') });
  }
  const [model, kind] = [steps[0], steps[1] ?? 'overview'];
  const isWhole = kind === 'tensor' ? steps.length > 2 : steps.length <= 2;
  if (known(model) && Object.hasOwn(VIEWS, kind) && isWhole) return at(kind, VIEWS[kind], Number(model), { name: steps.slice(2).join('/') });
  return at('unknown', unknown, 0);
}

function frame(list, at) {
  const place = document.getElementById('models');
  const labels = labelsOf(list).map((label) => shown(label, 60));
  if (list.length > 1 && !['compare', 'open', 'unknown'].includes(at.kind)) {
    const select = h('select', { 'aria-label': 'Model', onchange: () => { location.hash = link(select.value, at.kind === 'tensor' ? 'tensors' : at.kind); } },
      labels.map((label, number) => h('option', { value: number, selected: number === at.model }, label)));
    place.replaceChildren(select);
  } else {
    place.replaceChildren();
  }
  const current = at.kind === 'tensor' ? 'tensors' : at.kind;
  const entry = (kind, text, href) => h('a', { href, 'aria-current': kind === current ? 'page' : null }, text);
  document.getElementById('nav').replaceChildren(
    ...(files && list.length > 0 ? [entry('open', 'Open', '#/open')] : []),
    ...(list.length > 0 ? NAMES.map(([kind, text]) => entry(kind, text, link(at.model, kind))) : []),
    ...(list.length > 1 ? [entry('compare', 'Compare', link(...comparison(list, 0, at.kind === 'compare' ? at.b : Math.max(1, at.model))))] : []));
  document.querySelector('#nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

history.scrollRestoration = 'manual';

// What was in view at each entry of the history, to come back to.
const places = new Map();
let entry = 0;

/** The number of the entry of the history, and whether it has been shown before. */
function arrive() {
  const known = history.state?.entry;
  if (known !== undefined && places.has(known)) { entry = known; return true; }
  entry = known ?? Math.max(0, ...places.keys()) + 1;
  places.set(entry, null);
  history.replaceState({ entry }, '');
  return false;
}

/** Shows that the program has ended, and how to start it again; the page stays as it is. */
function ended(list) {
  if (document.getElementById('ended')) return;
  const command = list.length > 0 && take.command(`weighbridge view ${list.map((model) => quoted(model.path)).join(' ')}`);
  document.querySelector('.top').after(h('div', { id: 'ended', class: 'ended', role: 'alert' },
    h('p', {}, h('strong', {}, 'The program does not answer: it may have ended. '), 'What is shown stays. Start it again to see more:'), command));
}

async function show() {
  leaving?.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  if (show.before) places.set(entry, { tables: placesOf(main), top: show.top ?? 0 });
  const known = arrive();
  let list;
  for (;;) {
    try {
      list = await models();
      break;
    } catch (error) {
      if (signal.aborted) return;
      main.replaceChildren(error.kind === 'opening' ? busy(`Opening ${error.message}…`) : trouble(error));
      if (error.kind !== 'opening') return;
      await new Promise((resolve) => { setTimeout(resolve, 400); });
    }
  }
  if (signal.aborted) return;
  const at = { ...parse(list), list, signal };
  show.list = list;
  const old = [...main.childNodes];
  const waiting = setTimeout(() => { if (!signal.aborted) main.replaceChildren(busy('Reading…')); }, 150);
  try {
    frame(list, at);
    const { title, nodes } = await at.view.show(at);
    clearTimeout(waiting);
    if (signal.aborted) return;
    document.title = `${title} · Weighbridge`;
    main.replaceChildren(...nodes);
    if (show.before) main.querySelector('h1')?.focus({ preventScroll: true });
    const place = known && places.get(entry);
    if (place) restore(main, place.tables);
    window.scrollTo(0, place ? place.top : 0);
    show.before = true;
  } catch (error) {
    clearTimeout(waiting);
    if (!signal.aborted && error.kind === 'ended' && old.length > 0) {
      main.replaceChildren(...old);
      ended(list);
    } else if (!signal.aborted && error.name !== 'AbortError') {
      main.replaceChildren(h('h1', { tabindex: -1 }, 'This cannot be shown'), h('div', { class: 'notices' }, trouble(error)));
    }
  }
  document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready ?? 0) + 1);
}
document.addEventListener('programended', () => ended(show.list ?? []));
// Where the window is scrolled to is known only before the address changes.
window.addEventListener('scroll', () => { show.top = window.scrollY; }, { passive: true });

watchReading((list) => {
  const bar = document.getElementById('reading');
  bar.hidden = list.length === 0;
  bar.replaceChildren(...list.slice(0, 3).map(({ what, share, total }) => h('span', {}, h('span', { class: 'spin', 'aria-hidden': 'true' }),
    `Reading ${what}`, share !== null && ` ${total ? `${bytes(share * total, total)} of ${bytes(total)}` : percent(Math.round(share * 100) / 100)}`)));
});

// Light and dark: as the system has it, unless the button was pressed.
const system = matchMedia('(prefers-color-scheme: dark)');
const SUN = 'M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m0-11.4L4.9 4.9m14.2 14.2-1.4-1.4M16 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0Z';
const MOON = 'M20 14.5A8 8 0 0 1 9.5 4 8 8 0 1 0 20 14.5Z';

function theme() {
  let chosen = null;
  try { chosen = localStorage.getItem('weighbridge-theme'); } catch { /* storage may be off */ }
  const dark = chosen ? chosen === 'dark' : system.matches;
  document.documentElement.dataset.theme = dark ? 'dark' : 'light';
  const button = document.getElementById('theme');
  button.replaceChildren(s('svg', { viewBox: '0 0 24 24', 'aria-hidden': 'true' }, s('path', { d: dark ? SUN : MOON })));
  button.setAttribute('aria-label', dark ? 'Light colors' : 'Dark colors');
  button.setAttribute('title', dark ? 'Light colors' : 'Dark colors');
  document.dispatchEvent(new Event('themechange'));
}

document.getElementById('theme').addEventListener('click', () => {
  try { localStorage.setItem('weighbridge-theme', document.documentElement.dataset.theme === 'dark' ? 'light' : 'dark'); } catch { /* storage may be off */ }
  theme();
});
document.getElementById('skip').addEventListener('click', (event) => {
  event.preventDefault();
  (main.querySelector('h1') ?? main).focus();
});
system.addEventListener('change', theme);
window.addEventListener('hashchange', show);
// A slash leads to the filter of the view.
document.addEventListener('keydown', (event) => {
  if (event.key !== '/' || event.ctrlKey || event.metaKey || /^(input|select|textarea)$/i.test(event.target.tagName)) return;
  const filter = main.querySelector('input[type="search"]');
  if (filter) { event.preventDefault(); filter.focus(); }
});
theme();
show();
