// The frame of the page: which view is shown, for which model.

import { busy, h, s, shown, trouble } from './dom.js';
import { base } from './format.js';
import { link, models } from './state.js';
import * as compare from './compare.js';
import * as layers from './layers.js';
import * as overview from './overview.js';
import * as pair from './pair.js';
import * as tensor from './tensor.js';
import * as tensors from './tensors.js';
import * as tokens from './tokens.js';

const VIEWS = { overview, tensors, tensor, layers, tokens };
const NAMES = [['overview', 'Overview'], ['tensors', 'Tensors'], ['layers', 'Layers'], ['tokens', 'Tokens']];

const main = document.getElementById('main');
let leaving = null;

/** The view that opens files, where the page is without the program. */
const files = document.documentElement.dataset.source === 'files' ? await import('./files.js') : null;

/** The view that an address names. */
function parse(list) {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  let steps;
  try { steps = path.split('/').filter((step) => step !== '').map(decodeURIComponent); } catch { steps = []; }
  const parameters = Object.fromEntries(new URLSearchParams(query));
  if (files && (list.length === 0 || steps[0] === 'open')) return { view: files, kind: 'open', model: 0, name: '', query: parameters };
  if (steps[0] === 'compare' && list.length > 1) {
    const [a, b] = [Number(steps[1] ?? 0), Number(steps[2] ?? 1)];
    const known = (model) => Number.isInteger(model) && model >= 0 && model < list.length;
    if (known(a) && known(b)) return { view: steps[3] === undefined ? compare : pair, kind: 'compare', a, b, name: steps.slice(3).join('/'), query: parameters, model: a };
  }
  const model = Number(steps[0] ?? 0);
  const known = Number.isInteger(model) && model >= 0 && model < list.length;
  const kind = VIEWS[steps[1]] ? steps[1] : 'overview';
  return { view: VIEWS[kind], kind, model: known ? model : 0, name: steps.slice(2).join('/'), query: parameters };
}

function frame(list, at) {
  const place = document.getElementById('models');
  const labels = list.map((model) => shown(base(model.path), 60));
  if (list.length > 1 && at.kind !== 'compare' && at.kind !== 'open') {
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
    ...(list.length > 1 ? [entry('compare', 'Compare', link('compare', 0, at.kind === 'compare' ? at.b : Math.max(1, at.model)))] : []));
  document.querySelector('#nav [aria-current]')?.scrollIntoView({ block: 'nearest', inline: 'nearest' });
}

async function show() {
  leaving?.abort();
  leaving = new AbortController();
  const { signal } = leaving;
  let list;
  try {
    list = await models();
  } catch (error) {
    main.replaceChildren(trouble(error));
    return;
  }
  if (signal.aborted) return;
  const at = { ...parse(list), list, signal };
  frame(list, at);
  const waiting = setTimeout(() => { if (!signal.aborted) main.replaceChildren(busy('Reading…')); }, 150);
  try {
    const { title, nodes } = await at.view.show(at);
    clearTimeout(waiting);
    if (signal.aborted) return;
    document.title = `${title} · Weighbridge`;
    main.replaceChildren(...nodes);
    window.scrollTo(0, 0);
    if (show.before) main.querySelector('h1')?.focus({ preventScroll: true });
    show.before = true;
  } catch (error) {
    clearTimeout(waiting);
    if (!signal.aborted && error.name !== 'AbortError') main.replaceChildren(h('h1', { tabindex: -1 }, 'This cannot be shown'), h('div', { class: 'notices' }, trouble(error)));
  }
  document.documentElement.dataset.ready = String(Number(document.documentElement.dataset.ready ?? 0) + 1);
}

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
