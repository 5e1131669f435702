// Elements. Text from models becomes text nodes, and never HTML.

const SVG = 'http://www.w3.org/2000/svg';

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith('on')) node.addEventListener(name.slice(2), value);
    else if (name === 'vars') for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else node.setAttribute(name, value === true ? '' : String(value));
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

/** An HTML element with attributes (`on…` are listeners, `vars` custom properties) and children. */
export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function s(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Controls, and marks that change the direction of text or are invisible.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;
const PLAIN = /^[\x20-\x7e]*$/;
const spelled = (mark) => `\\u{${mark.codePointAt(0).toString(16)}}`;

/** A text from a model on one line: marks that cannot be seen are escaped, and what is very long is cut. */
export function shown(text, most = 300) {
  const all = String(text);
  if (all.length <= most && PLAIN.test(all)) return all;
  const cut = all.length > most ? `${all.slice(0, most)}… (${all.length.toLocaleString('en')} characters)` : all;
  return cut.replace(HIDDEN, spelled).replace(/[\n\t]/g, (mark) => (mark === '\n' ? '\\n' : '\\t'));
}

/** A text of several lines from a model. */
export function shownText(text) {
  return String(text).replace(HIDDEN, spelled);
}

/** A name from a model. */
export function name(text, most) {
  return h('span', { class: 'name', dir: 'auto' }, shown(text, most));
}

/** The name of a tensor where room is short. Of one that does not fit, the end is kept, where names differ. */
export function shortName(text) {
  const all = window.innerWidth <= 900 ? String(text).replace(/\.weight$/, '') : String(text);
  if (window.innerWidth <= 560) return h('span', { class: 'name', dir: 'auto' }, breakable(withoutMiddle(all, 45)));
  const parts = all.split('.');
  if (parts.length === 1 || all.length > 200) return name(all, 200);
  // The number of the layer belongs to the end, if it is not far.
  const layer = parts.map((part) => /^\d+$/.test(part)).lastIndexOf(true);
  const from = Math.max(1, parts.slice(layer).join('.').length <= 36 ? layer : parts.length - 2);
  const [start, end] = [parts.slice(0, from).join('.'), `.${parts.slice(from).join('.')}`];
  return h('span', { class: 'name', dir: 'auto' }, h('span', { class: 'start', vars: { '--end': `${Math.ceil(end.length * 0.88)}ch` } }, shown(start)), shown(end));
}

/** A name of at most about so many characters, without some of the parts between its dots. */
function withoutMiddle(text, most) {
  if (text.length <= most) return text;
  const parts = text.split('.');
  let end = parts.pop();
  while (parts.length > 1 && end.length + parts.at(-1).length + parts[0].length + 2 < most) end = `${parts.pop()}.${end}`;
  return end.length < most ? `${parts[0].slice(0, most - end.length)}….${end}` : `${text.slice(0, most / 3)}…${text.slice(-most / 2)}`;
}

/** A word that may be broken after its dots and underscores, and nowhere else. */
export function breakable(text) {
  return h('span', { class: 'breakable' }, String(text).split(/(?<=[._])/).flatMap((part, at) => (at > 0 ? [h('wbr', {}), shown(part)] : [shown(part)])));
}

/** A name as a title, which breaks between its words. */
export const titleName = (text) => h('span', { class: 'name', dir: 'auto' }, breakable(shown(text, 200)));

export function section(title, note, tools, ...content) {
  return h('section', {}, h('div', { class: 'section-head' }, h('h2', {}, title), note && h('p', {}, note), tools && h('div', { class: 'tools' }, tools)), content);
}

export function head(title, { crumb, sub, tools } = {}) {
  return h('div', { class: 'head' },
    h('div', {}, crumb && h('p', { class: 'crumb' }, crumb), h('h1', { tabindex: -1 }, title), sub && h('div', { class: 'sub' }, sub)),
    tools && h('div', { class: 'tools' }, tools));
}

/** A choice between a few values, as buttons. */
export function segments(label, choices, chosen, choose) {
  const buttons = choices.map(([value, text]) => h('button', {
    type: 'button', 'aria-pressed': String(value === chosen),
    onclick: (event) => {
      for (const other of buttons) other.setAttribute('aria-pressed', String(other === event.currentTarget));
      choose(value);
    },
  }, text));
  return h('div', { class: 'segments', role: 'group', 'aria-label': label }, buttons);
}

export function facts(rows) {
  return h('dl', { class: 'facts' }, rows.filter((row) => row[1] !== null && row[1] !== undefined)
    .map(([label, value, note]) => h('div', {}, h('dt', {}, label), h('dd', {}, typeof value === 'string' && value.length < 14 ? h('span', { class: 'whole' }, value) : value, note && [' ', h('small', {}, note)]))));
}

export function pairs(rows) {
  return h('dl', { class: 'pairs' }, rows.filter((row) => row[1] !== null && row[1] !== undefined).map(([label, value]) => [h('dt', {}, label), h('dd', {}, value)]));
}

export function busy(text) {
  return h('div', { class: 'busy' }, h('span', { class: 'spin', 'aria-hidden': 'true' }), text);
}

export function notice(kind, text, advice) {
  return h('div', { class: kind === 'Fault' || kind === 'Error' ? 'notice bad' : 'notice' }, h('strong', {}, kind), shown(text, 2000), advice && h('div', {}, shown(advice, 2000)));
}

/** Shows an error in place of what it prevented. */
export function trouble(error) {
  if (error.name === 'AbortError') return null;
  if (error.kind === 'ended') document.dispatchEvent(new Event('programended'));
  return notice('Error', error.message, error.advice);
}

/** Says something to screen readers. */
export function say(text) {
  document.getElementById('live').textContent = text;
}

/** Shows a short message for a moment. */
let fading = 0;
export function toast(text) {
  const place = document.getElementById('toast');
  place.textContent = text;
  place.classList.add('on');
  say(text);
  clearTimeout(fading);
  fading = setTimeout(() => place.classList.remove('on'), 1800);
}
