// What a person takes away: texts, CSV, JSON, pictures.

import { h, toast } from './dom.js';

export async function copy(text, what = 'Copied') {
  try {
    await navigator.clipboard.writeText(text);
    toast(what);
  } catch {
    toast('The browser does not allow copying');
  }
}

function save(name, blob) {
  const address = URL.createObjectURL(blob);
  const anchor = h('a', { href: address, download: name });
  document.body.append(anchor);
  anchor.click();
  anchor.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
  toast(`Saved ${name}`);
}

const file = (name) => name.replace(/[^A-Za-z0-9_.-]+/g, '-').slice(0, 80) || 'weighbridge';

/** A cell of CSV. A text that a spreadsheet would take for a formula gets an apostrophe. */
function cell(value) {
  if (value === null || value === undefined) return '';
  const text = String(value);
  const safe = typeof value === 'string' && /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\n\r]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

export function csv(name, heads, rows) {
  const lines = [heads, ...rows].map((row) => row.map(cell).join(','));
  save(`${file(name)}.csv`, new Blob([`${lines.join('\r\n')}\r\n`], { type: 'text/csv' }));
}

export function json(name, value) {
  save(`${file(name)}.json`, new Blob([`${JSON.stringify(value, null, 2)}\n`], { type: 'application/json' }));
}

export function canvas(name, node) {
  node.toBlob((blob) => blob && save(`${file(name)}.png`, blob), 'image/png');
}

/** A picture of an SVG chart, with the colors that it has on the page. */
export function picture(name, chart) {
  const clone = chart.cloneNode(true);
  const from = [chart, ...chart.querySelectorAll('*')];
  const to = [clone, ...clone.querySelectorAll('*')];
  const kept = ['fill', 'stroke', 'stroke-width', 'stroke-opacity', 'stroke-dasharray', 'font', 'opacity', 'text-anchor'];
  from.forEach((node, place) => {
    const style = getComputedStyle(node);
    for (const property of kept) to[place].setAttribute(property, style.getPropertyValue(property));
  });
  const { width, height } = chart.viewBox.baseVal;
  clone.setAttribute('width', width);
  clone.setAttribute('height', height);
  const source = new XMLSerializer().serializeToString(clone);
  const image = new Image();
  image.onload = () => {
    const plate = h('canvas', { width: width * 2, height: height * 2 });
    const paint = plate.getContext('2d');
    paint.fillStyle = getComputedStyle(document.documentElement).getPropertyValue('--surface');
    paint.fillRect(0, 0, plate.width, plate.height);
    paint.drawImage(image, 0, 0, plate.width, plate.height);
    canvas(name, plate);
    URL.revokeObjectURL(image.src);
  };
  image.src = URL.createObjectURL(new Blob([source], { type: 'image/svg+xml' }));
}

export const button = (text, onclick, title) => h('button', { type: 'button', class: 'button', onclick, title }, text);

/** A command that shows the same in the terminal. */
export function command(text) {
  return h('div', { class: 'command' }, h('code', { dir: 'ltr', tabindex: 0, role: 'region', 'aria-label': `The same in the terminal: ${text.slice(0, 120)}` }, text),
    h('button', { type: 'button', class: 'quiet', onclick: () => copy(text, 'Command copied') }, 'Copy'));
}
