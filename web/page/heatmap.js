// A heat map of a matrix, which zooms from the whole to single numbers. Only what is in view is asked for.

import { busy, h, say, segments, trouble } from './dom.js';
import { exact, number, parsed, whole } from './format.js';
import * as take from './take.js';

/** Cells asked for in each direction at most. */
const CELLS = 256;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).split(',').map(Number);

/** The width in pixels from which blocks are divided by lines: narrower ones would hide the values. */
const BLOCK = 40;

/** A color between the middle and an end: `share` is from -1 to 1. */
function color(share, low, mid, high, bend) {
  const end = share < 0 ? low : high;
  const part = Math.min(1, Math.abs(share)) ** bend;
  return mid.map((from, channel) => from + (end[channel] - from) * part);
}

/** A size that all but a few of the largest values have. */
function typical(values) {
  const sizes = values.map(Math.abs).filter(Number.isFinite).sort((a, b) => a - b);
  if (sizes.length === 0) return 1;
  const most = sizes[sizes.length - 1];
  const usual = sizes[Math.floor((sizes.length - 1) * 0.995)];
  return (usual > 0 && most > usual * 4 ? usual * 1.5 : most) || 1;
}

/**
 * `get(parameters, signal)` asks for a grid. `block` is the number of columns that share a scale, if there is one;
 * `view` is what to show first, `[row, row, column, column]`; `onview` is told what is in view.
 */
export function heatmap({ rows, columns, get, signal, block = null, view = null, onview = null, title, words = ['Mean', 'mean'] }) {
  const all = [0, rows, 0, columns];
  let now = view ?? all;
  let past = [];
  let grid = null;
  let shownValue = 'mean';
  let asked = null;
  /** The end of the range of colors, if it is fixed; else it follows what is in view. */
  let fixed = null;

  const canvas = h('canvas', { tabindex: 0, role: 'img', 'aria-label': `${title}: heat map. Arrow keys move, plus and minus zoom, 0 shows all` });
  const box = h('div', { class: 'box' });
  const readout = h('p', { class: 'readout' }, '');
  const yTicks = h('div', { class: 'ticks y', 'aria-hidden': 'true' });
  const xTicks = h('div', { class: 'ticks x', 'aria-hidden': 'true' });
  const bar = h('canvas', { width: 160, height: 10, 'aria-hidden': 'true' });
  const ends = [h('span', {}), h('span', {})];
  const where = h('span', { class: 'muted small num' });
  const out = h('button', { type: 'button', class: 'button', disabled: true, onclick: () => back() }, 'Zoom out');
  const complete = h('button', { type: 'button', class: 'button', disabled: true, onclick: () => go(all, true) }, 'Show all');
  const place = h('div', { class: 'heat' }, yTicks, canvas, xTicks);
  const waiting = busy('Reading the values…');
  waiting.classList.add('over');
  waiting.hidden = true;
  place.append(box, waiting);
  const error = h('div', {});

  let usual = 1;
  const values = () => grid[shownValue];
  const single = () => grid && grid.height === grid.rows[1] - grid.rows[0] && grid.width === grid.columns[1] - grid.columns[0];

  function size() {
    const width = Math.max(200, canvas.clientWidth || 800);
    const shape = (now[1] - now[0]) / Math.max(1, now[3] - now[2]);
    const height = Math.round(Math.min(Math.max(width * shape, Math.min(width * 0.3, 180)), 560));
    return [width, height];
  }

  async function load() {
    asked?.abort();
    asked = new AbortController();
    signal.addEventListener('abort', () => asked.abort(), { once: true });
    const [width, height] = size();
    canvas.setAttribute('aria-busy', 'true');
    const mine = asked;
    waiting.lastChild.textContent = 'Reading the values…';
    setTimeout(() => { waiting.hidden = mine !== asked || !canvas.hasAttribute('aria-busy'); }, grid ? 200 : 0);
    try {
      const found = await get({ rows: `${now[0]}-${now[1]}`, columns: `${now[2]}-${now[3]}`,
        height: Math.min(CELLS, Math.floor(height / 2)), width: Math.min(CELLS, Math.floor(width / 2)) }, asked.signal,
      (share) => { if (mine === asked) waiting.lastChild.textContent = `Reading the values… ${Math.floor(share * 100)} %`; });
      for (const key of ['mean', 'rms', 'max']) found[key] = Float64Array.from(found[key], parsed);
      grid = found;
      error.replaceChildren();
      draw();
    } catch (problem) {
      if (problem.name !== 'AbortError') error.replaceChildren(trouble(problem));
    }
    if (mine !== asked) return;
    canvas.removeAttribute('aria-busy');
    waiting.hidden = true;
  }

  /** Lines between values that share a scale, where there is room for them. */
  function borders(paint, width, strength, ratio, style) {
    const perColumn = canvas.width / (grid.columns[1] - grid.columns[0]);
    if (!width || perColumn * width < BLOCK * ratio || grid.columns[1] - grid.columns[0] <= width / 2) return;
    paint.strokeStyle = style.getPropertyValue('--ink');
    paint.globalAlpha = strength;
    paint.lineWidth = ratio;
    for (let column = Math.ceil(grid.columns[0] / width) * width; column < grid.columns[1]; column += width) {
      const x = Math.round((column - grid.columns[0]) * perColumn);
      paint.beginPath();
      paint.moveTo(x, 0);
      paint.lineTo(x, canvas.height);
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }

  function draw() {
    if (!grid || !canvas.isConnected) return;
    const [width, height] = size();
    const ratio = Math.min(2, window.devicePixelRatio || 1);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const [low, mid, high] = [css('--low'), css('--mid'), css('--high')];
    const found = values();
    const most = fixed ?? typical(Array.from(found));
    usual = most;
    const cells = new ImageData(grid.width, grid.height);
    found.forEach((value, cell) => {
      const odd = Number.isNaN(grid.max[cell]) || !Number.isFinite(grid.max[cell]);
      const paint = odd ? [255, 0, 200] : color(value / most, low, mid, high, 0.8);
      cells.data.set([...paint, 255], cell * 4);
    });
    const small = h('canvas', { width: grid.width, height: grid.height });
    small.getContext('2d').putImageData(cells, 0, 0);
    const paint = canvas.getContext('2d');
    paint.imageSmoothingEnabled = false;
    paint.drawImage(small, 0, 0, canvas.width, canvas.height);
    const style = getComputedStyle(document.documentElement);
    borders(paint, grid.sub_width, 0.16, ratio, style);
    borders(paint, block, 0.4, ratio, style);
    const [cellWidth, cellHeight] = [canvas.width / grid.width, canvas.height / grid.height];
    if (single() && cellWidth >= 52 * ratio && cellHeight >= 15 * ratio) {
      paint.font = `${11 * ratio}px ${style.getPropertyValue('--sans')}`;
      paint.textAlign = 'center';
      paint.textBaseline = 'middle';
      found.forEach((value, cell) => {
        const shade = color(value / most, low, mid, high, 0.8);
        const light = (shade[0] * 299 + shade[1] * 587 + shade[2] * 114) / 1000;
        paint.fillStyle = light > 140 ? '#141413' : '#ffffff';
        paint.fillText(number(value), ((cell % grid.width) + 0.5) * cellWidth, (Math.floor(cell / grid.width) + 0.5) * cellHeight);
      });
    }
    const strip = bar.getContext('2d');
    const diverging = shownValue === 'mean';
    for (let x = 0; x < 160; x += 1) {
      const share = diverging ? x / 79.5 - 1 : x / 159;
      strip.fillStyle = `rgb(${color(share, low, mid, high, 0.8).map(Math.round).join(',')})`;
      strip.fillRect(x, 0, 1, 10);
    }
    ends[0].textContent = diverging ? number(-most) : '0';
    ends[1].textContent = number(most);
    const label = (at) => h('span', {}, whole(at));
    yTicks.replaceChildren(label(grid.rows[0]), label(Math.max(grid.rows[0], grid.rows[1] - 1)));
    xTicks.replaceChildren(label(grid.columns[0]), label(Math.max(grid.columns[0], grid.columns[1] - 1)));
    where.textContent = single() ? 'single numbers' : `cells of ${whole(Math.ceil((grid.rows[1] - grid.rows[0]) / grid.height))} × ${whole(Math.ceil((grid.columns[1] - grid.columns[0]) / grid.width))} values`;
    out.disabled = past.length === 0;
    complete.disabled = now.every((end, at) => end === all[at]);
  }

  function limited([r0, r1, c0, c1]) {
    const fit = (from, to, end) => {
      const span = Math.min(end, Math.max(1, Math.round(to - from)));
      const start = Math.min(Math.max(0, Math.round(from)), end - span);
      return [start, start + span];
    };
    return [...fit(r0, r1, rows), ...fit(c0, c1, columns)];
  }

  function go(wanted, remember = false) {
    const next = limited(wanted);
    if (next.every((end, at) => end === now[at])) return;
    if (remember) past.push(now);
    now = next;
    onview?.(now.every((end, at) => end === all[at]) ? null : now);
    say(`rows ${now[0]} to ${now[1] - 1}, columns ${now[2]} to ${now[3] - 1}`);
    load();
  }

  function back() {
    const last = past.pop() ?? all;
    go(last);
  }

  function zoom(factor, row = (now[0] + now[1]) / 2, column = (now[2] + now[3]) / 2) {
    const part = (from, to, at) => [at - (at - from) * factor, at + (to - at) * factor];
    go([...part(now[0], now[1], row), ...part(now[2], now[3], column)], factor < 1);
  }

  const at = (event) => {
    const frame = canvas.getBoundingClientRect();
    const x = Math.min(1, Math.max(0, (event.clientX - frame.left) / frame.width));
    const y = Math.min(1, Math.max(0, (event.clientY - frame.top) / frame.height));
    return [now[0] + y * (now[1] - now[0]), now[2] + x * (now[3] - now[2]), x * frame.width, y * frame.height];
  };

  /** The block of a single number, and the scales of the block and of its part, as far as they are known. */
  function blockAt(i, column) {
    const at = (width) => Math.floor(column / width);
    const found = (scales, width) => scales?.[i * (columns / width) + at(width)];
    const [scale, inner] = [found(grid.scales, grid.scale_width), found(grid.sub_scales, grid.sub_width)];
    return [
      block && `, block ${at(block)}`,
      scale !== undefined && ` with scale ${number(scale)}`,
      inner !== undefined && `, sub-block ${at(grid.sub_width)} with scale ${number(inner)}`,
    ].filter(Boolean).join('');
  }

  function point(event) {
    if (!grid) return;
    const [row, column] = at(event);
    const cell = (value, [from, to], count) => Math.min(count - 1, Math.floor(((value - from) / (to - from)) * count));
    const [i, j] = [cell(row, grid.rows, grid.height), cell(column, grid.columns, grid.width)];
    if (!(i >= 0 && j >= 0)) return;
    const range = ([from, to], count, n) => {
      const limits = [from + Math.floor((n * (to - from)) / count), from + Math.floor(((n + 1) * (to - from)) / count)];
      return limits[1] - limits[0] <= 1 ? String(limits[0]) : `${limits[0]}–${limits[1] - 1}`;
    };
    const cellAt = i * grid.width + j;
    const position = `row ${range(grid.rows, grid.height, i)}, column ${range(grid.columns, grid.width, j)}`;
    readout.textContent = single()
      ? `${position}${blockAt(i, grid.columns[0] + j)}: ${Number.isFinite(grid.max[cellAt]) ? exact(grid.mean[cellAt]) : number(grid.max[cellAt])}`
      : `${position}: ${words[1]} ${number(grid.mean[cellAt])}, RMS ${number(grid.rms[cellAt])}, largest ${number(grid.max[cellAt])}`;
  }

  let start = null;
  canvas.addEventListener('pointerdown', (event) => {
    if (event.button !== 0) return;
    start = at(event);
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener('pointermove', (event) => {
    point(event);
    if (!start) return;
    const end = at(event);
    const frame = [canvas.offsetLeft, canvas.offsetTop];
    box.style.display = 'block';
    box.style.left = `${frame[0] + Math.min(start[2], end[2])}px`;
    box.style.top = `${frame[1] + Math.min(start[3], end[3])}px`;
    box.style.width = `${Math.abs(end[2] - start[2])}px`;
    box.style.height = `${Math.abs(end[3] - start[3])}px`;
  });
  const stop = (event) => {
    if (!start) return;
    const [first, end] = [start, at(event)];
    start = null;
    box.style.display = 'none';
    if (event.type !== 'pointerup') return;
    if (Math.hypot(end[2] - first[2], end[3] - first[3]) < 6) { zoom(0.25, end[0], end[1]); return; }
    const part = (a, b) => [Math.floor(Math.min(a, b)), Math.ceil(Math.max(a, b))];
    go([...part(first[0], end[0]), ...part(first[1], end[1])], true);
  };
  canvas.addEventListener('pointerup', stop);
  canvas.addEventListener('pointercancel', stop);
  canvas.addEventListener('pointerleave', () => { if (!start) readout.textContent = ''; });
  canvas.addEventListener('keydown', (event) => {
    const [height, width] = [(now[1] - now[0]) / 4, (now[3] - now[2]) / 4];
    const move = { ArrowUp: [-height, 0], ArrowDown: [height, 0], ArrowLeft: [0, -width], ArrowRight: [0, width] }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (move) {
      const step = (amount) => Math.sign(amount) * Math.max(Math.abs(Math.round(amount)), amount === 0 ? 0 : 1);
      go([now[0] + step(move[0]), now[1] + step(move[0]), now[2] + step(move[1]), now[3] + step(move[1])]);
    } else if (event.key === '+' || event.key === '=') zoom(0.5);
    else if (event.key === '-') zoom(2);
    else if (event.key === '0') go(all, true);
    else if (event.key === 'Escape' || event.key === 'Backspace') back();
    else return;
    event.preventDefault();
  });

  const watch = new ResizeObserver(() => { if (grid) draw(); });
  watch.observe(place);
  const recolor = () => draw();
  document.addEventListener('themechange', recolor);
  signal.addEventListener('abort', () => { watch.disconnect(); document.removeEventListener('themechange', recolor); });

  const tabs = () => Array.from({ length: grid.height }, (_, i) => Array.from(values().slice(i * grid.width, (i + 1) * grid.width), exact).join('\t')).join('\n');
  const csv = () => {
    const rowOf = (i) => grid.rows[0] + Math.floor((i * (grid.rows[1] - grid.rows[0])) / grid.height);
    const lines = Array.from({ length: grid.height }, (_, i) => [rowOf(i), ...values().slice(i * grid.width, (i + 1) * grid.width)]);
    const heads = Array.from({ length: grid.width }, (_, j) => grid.columns[0] + Math.floor((j * (grid.columns[1] - grid.columns[0])) / grid.width));
    take.csv(`${title} ${shownValue}`, ['row', ...heads], lines);
  };
  const fix = h('button', { type: 'button', class: 'button', 'aria-pressed': 'false', title: 'Keep the range of colors while zooming', onclick: () => {
    fixed = fixed === null ? usual : null;
    fix.setAttribute('aria-pressed', String(fixed !== null));
    draw();
  } }, 'Fix colors');
  const tools = [
    segments('Value of a cell', [['mean', words[0]], ['rms', 'RMS'], ['max', 'Largest']], 'mean', (value) => { shownValue = value; draw(); }),
    out, complete, fix,
    take.button('Copy', () => grid && take.copy(tabs(), 'Numbers copied'), 'Copy the numbers, to paste them into a table'),
    take.button('PNG', () => take.canvas(title, canvas), 'Save the picture'),
    take.button('CSV', () => grid && csv(), 'Save the numbers'),
  ];
  const legend = h('div', { class: 'scale' }, ends[0], bar, ends[1], where);
  requestAnimationFrame(() => load());
  return { node: h('div', {}, place, readout, legend, error), tools, grid: () => grid };
}
