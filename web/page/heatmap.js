// A heat map of a matrix, which zooms from the whole to single numbers. Only what is in view is asked for.

import { busy, h, say, segments, trouble } from './dom.js';
import { exact, number, parsed, whole } from './format.js';
import * as take from './take.js';

/** Cells asked for in each direction at most. */
const CELLS = 256;

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).split(',').map(Number);

/** The width in pixels from which blocks are divided by lines: narrower ones would hide the values. */
const BLOCK = 40;

/** The color of a cell that has NaN or an infinity. */
const NOT_FINITE = [255, 0, 200];

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

/** The cell, of `count` in a range, that has a position. */
const cellOf = (value, [from, to], count) => Math.min(count - 1, Math.floor(((value - from) / (to - from)) * count));

/** The rows or columns of one cell of `count`, in words. */
function within([from, to], count, cell) {
  const [first, end] = [cell, cell + 1].map((at) => from + Math.floor((at * (to - from)) / count));
  return end - first <= 1 ? String(first) : `${first}–${end - 1}`;
}

/** A part of a range that is not beyond its ends, and not empty. */
function fit(from, to, end) {
  const span = Math.min(end, Math.max(1, Math.round(to - from)));
  const start = Math.min(Math.max(0, Math.round(from)), end - span);
  return [start, start + span];
}

/** Numbers are dark on light cells, and light on dark ones. */
const legible = ([red, green, blue]) => ((red * 299 + green * 587 + blue * 114) / 1000 > 140 ? '#141413' : '#ffffff');

/** The canvas, and what is drawn on it. */
class Picture {
  constructor(title) {
    this.canvas = h('canvas', { tabindex: 0, role: 'img', 'aria-label': `${title}: heat map. Arrow keys move, plus and minus zoom, 0 shows all` });
    this.bar = h('canvas', { width: 160, height: 10, 'aria-hidden': 'true' });
  }

  /** The size in pixels of the page for a part of a matrix. */
  size([top, bottom, left, right]) {
    const width = Math.max(200, this.canvas.clientWidth || 800);
    const shape = (bottom - top) / Math.max(1, right - left);
    return [width, Math.round(Math.min(Math.max(width * shape, Math.min(width * 0.3, 180)), 560))];
  }

  /** Draws the values of a grid; `most` has the strongest color. */
  draw(grid, values, most, [width, height], block, single) {
    const { canvas } = this;
    this.ratio = Math.min(2, window.devicePixelRatio || 1);
    [canvas.width, canvas.height] = [width, height].map((side) => Math.round(side * this.ratio));
    canvas.style.height = `${height}px`;
    this.style = getComputedStyle(document.documentElement);
    const [low, mid, high] = [css('--low'), css('--mid'), css('--high')];
    this.shade = (share) => color(share, low, mid, high, 0.8);
    const cells = new ImageData(grid.width, grid.height);
    values.forEach((value, cell) => {
      cells.data.set([...(Number.isFinite(grid.max[cell]) ? this.shade(value / most) : NOT_FINITE), 255], cell * 4);
    });
    const small = h('canvas', { width: grid.width, height: grid.height });
    small.getContext('2d').putImageData(cells, 0, 0);
    this.paint = canvas.getContext('2d');
    this.paint.imageSmoothingEnabled = false;
    this.paint.drawImage(small, 0, 0, canvas.width, canvas.height);
    this.borders(grid, grid.sub_width, 0.16);
    this.borders(grid, block, 0.4);
    if (single) this.numbers(grid, values, most);
  }

  /** Lines between values that share a scale, where there is room for them. */
  borders(grid, width, strength) {
    const { canvas, paint, ratio } = this;
    const [first, end] = grid.columns;
    const perColumn = canvas.width / (end - first);
    if (!width || perColumn * width < BLOCK * ratio || end - first <= width / 2) return;
    Object.assign(paint, { strokeStyle: this.style.getPropertyValue('--ink'), globalAlpha: strength, lineWidth: ratio });
    for (let column = Math.ceil(first / width) * width; column < end; column += width) {
      const x = Math.round((column - first) * perColumn);
      paint.beginPath();
      paint.moveTo(x, 0);
      paint.lineTo(x, canvas.height);
      paint.stroke();
    }
    paint.globalAlpha = 1;
  }

  /** The values in their cells, where there is room for them. */
  numbers(grid, values, most) {
    const { canvas, paint, ratio } = this;
    const [width, height] = [canvas.width / grid.width, canvas.height / grid.height];
    if (width < 60 * ratio || height < 15 * ratio) return;
    Object.assign(paint, { font: `${11 * ratio}px ${this.style.getPropertyValue('--sans')}`, textAlign: 'center', textBaseline: 'middle' });
    values.forEach((value, cell) => {
      paint.fillStyle = legible(this.shade(value / most));
      paint.fillText(number(value), ((cell % grid.width) + 0.5) * width, (Math.floor(cell / grid.width) + 0.5) * height);
    });
  }

  /** The bar of colors: from the negative end, or from 0. */
  scale(diverging) {
    const strip = this.bar.getContext('2d');
    for (let x = 0; x < 160; x += 1) {
      strip.fillStyle = `rgb(${this.shade(diverging ? x / 79.5 - 1 : x / 159).map(Math.round).join(',')})`;
      strip.fillRect(x, 0, 1, 10);
    }
  }
}

class HeatMap {
  constructor({ rows, columns, get, signal, block, view, onview, title, words }) {
    this.all = [0, rows, 0, columns];
    Object.assign(this, { rows, columns, get, signal, block, onview, title, words, now: view ?? this.all, past: [], grid: null, shown: 'mean' });
    /** The end of the range of colors, if it is fixed; else it follows what is in view. */
    this.fixed = null;
    this.picture = new Picture(title);
    this.canvas = this.picture.canvas;
    this.box = h('div', { class: 'box' });
    this.readout = h('p', { class: 'readout' }, '');
    this.ticks = ['y', 'x'].map((axis) => h('div', { class: `ticks ${axis}`, 'aria-hidden': 'true' }));
    this.ends = [h('span', {}), h('span', {})];
    this.where = h('span', { class: 'muted small num' });
    this.broken = h('span', { class: 'legend', hidden: true }, h('i', { 'aria-hidden': 'true', vars: { '--c': `rgb(${NOT_FINITE.join(' ')})` } }), 'NaN or infinite');
    this.error = h('div', {});
    this.waiting = busy('Reading the values…');
    this.waiting.classList.add('over');
    this.waiting.hidden = true;
    this.place = h('div', { class: 'heat' }, this.ticks[0], this.canvas, this.ticks[1], this.box, this.waiting);
    this.node = h('div', {}, this.place, this.readout, h('div', { class: 'scale' }, this.ends[0], this.picture.bar, this.ends[1], this.broken, this.where), this.error);
    this.tools = this.buttons();
    this.follow();
    requestAnimationFrame(() => this.load());
  }

  /** Listens to the pointer, the keys, the window and the theme. */
  follow() {
    const { canvas, signal } = this;
    canvas.addEventListener('pointerdown', (event) => this.press(event));
    canvas.addEventListener('pointermove', (event) => this.move(event));
    canvas.addEventListener('pointerup', (event) => this.release(event));
    canvas.addEventListener('pointercancel', (event) => this.release(event));
    canvas.addEventListener('pointerleave', () => { if (!this.start) this.readout.textContent = ''; });
    canvas.addEventListener('keydown', (event) => this.key(event));
    const watch = new ResizeObserver(() => this.draw());
    watch.observe(this.place);
    document.addEventListener('themechange', () => this.draw(), { signal });
    signal.addEventListener('abort', () => watch.disconnect());
  }

  buttons() {
    const button = (text, onclick) => h('button', { type: 'button', class: 'button', disabled: true, onclick }, text);
    this.out = button('Zoom out', () => this.back());
    this.complete = button('Show all', () => this.go(this.all, true));
    const fix = h('button', { type: 'button', class: 'button', 'aria-pressed': 'false', title: 'Keep the range of colors while zooming', onclick: () => {
      this.fixed = this.fixed === null ? this.most : null;
      fix.setAttribute('aria-pressed', String(this.fixed !== null));
      this.draw();
    } }, 'Fix colors');
    return [
      segments('Value of a cell', [['mean', this.words[0]], ['rms', 'RMS'], ['max', 'Largest']], 'mean', (value) => { this.shown = value; this.draw(); }),
      this.out, this.complete, fix,
      take.button('Copy', () => this.grid && take.copy(this.tabs(), 'Numbers copied'), 'Copy the numbers, to paste them into a table'),
      take.button('PNG', () => take.canvas(this.title, this.canvas), 'Save the picture'),
      take.button('CSV', () => this.grid && this.csv(), 'Save the numbers'),
    ];
  }

  /** Whether each cell is a single number. */
  get single() {
    const { grid } = this;
    return grid.height === grid.rows[1] - grid.rows[0] && grid.width === grid.columns[1] - grid.columns[0];
  }

  get values() { return this.grid[this.shown]; }

  async load() {
    this.asked?.abort();
    const mine = new AbortController();
    this.asked = mine;
    this.signal.addEventListener('abort', () => mine.abort(), { once: true });
    const [width, height] = this.picture.size(this.now);
    const { canvas, waiting, now } = this;
    canvas.setAttribute('aria-busy', 'true');
    const tell = (text) => { waiting.lastChild.textContent = text; };
    tell('Reading the values…');
    setTimeout(() => { waiting.hidden = mine !== this.asked || !canvas.hasAttribute('aria-busy'); }, this.grid ? 200 : 0);
    try {
      const found = await this.get({ rows: `${now[0]}-${now[1]}`, columns: `${now[2]}-${now[3]}`,
        height: Math.min(CELLS, Math.floor(height / 2)), width: Math.min(CELLS, Math.floor(width / 2)) }, mine.signal,
      (share) => { if (mine === this.asked) tell(`Reading the values… ${Math.floor(share * 100)} %`); });
      for (const key of ['mean', 'rms', 'max']) found[key] = Float64Array.from(found[key], parsed);
      this.grid = found;
      this.error.replaceChildren();
      this.draw();
    } catch (problem) {
      if (problem.name !== 'AbortError') this.error.replaceChildren(trouble(problem));
    }
    if (mine !== this.asked) return;
    canvas.removeAttribute('aria-busy');
    waiting.hidden = true;
  }

  draw() {
    const { grid } = this;
    if (!grid || !this.canvas.isConnected) return;
    this.most = this.fixed ?? typical(Array.from(this.values));
    this.picture.draw(grid, this.values, this.most, this.picture.size(this.now), this.block, this.single);
    const diverging = this.shown === 'mean';
    this.picture.scale(diverging);
    this.ends[0].textContent = diverging ? number(-this.most) : '0';
    this.ends[1].textContent = number(this.most);
    [grid.rows, grid.columns].forEach(([first, end], axis) => {
      this.ticks[axis].replaceChildren(...[first, Math.max(first, end - 1)].map((at) => h('span', {}, whole(at))));
    });
    const each = ([first, end], count) => whole(Math.ceil((end - first) / count));
    this.where.textContent = this.single ? 'single numbers' : `cells of ${each(grid.rows, grid.height)} × ${each(grid.columns, grid.width)} values`;
    this.broken.hidden = grid.max.every(Number.isFinite);
    this.out.disabled = this.past.length === 0;
    this.complete.disabled = this.isWhole(this.now);
  }

  isWhole(part) { return part.every((end, at) => end === this.all[at]); }

  go([top, bottom, left, right], remember = false) {
    const next = [...fit(top, bottom, this.rows), ...fit(left, right, this.columns)];
    if (next.every((end, at) => end === this.now[at])) return;
    if (remember) this.past.push(this.now);
    this.now = next;
    this.onview?.(this.isWhole(next) ? null : next);
    say(`rows ${next[0]} to ${next[1] - 1}, columns ${next[2]} to ${next[3] - 1}`);
    this.load();
  }

  back() { this.go(this.past.pop() ?? this.all); }

  zoom(factor, row = (this.now[0] + this.now[1]) / 2, column = (this.now[2] + this.now[3]) / 2) {
    const part = (from, to, at) => [at - (at - from) * factor, at + (to - at) * factor];
    const [top, bottom, left, right] = this.now;
    this.go([...part(top, bottom, row), ...part(left, right, column)], factor < 1);
  }

  /** The row and column at the pointer, and where it is on the canvas. */
  at(event) {
    const frame = this.canvas.getBoundingClientRect();
    const x = Math.min(1, Math.max(0, (event.clientX - frame.left) / frame.width));
    const y = Math.min(1, Math.max(0, (event.clientY - frame.top) / frame.height));
    const [top, bottom, left, right] = this.now;
    return [top + y * (bottom - top), left + x * (right - left), x * frame.width, y * frame.height];
  }

  /** The block of a single number, and the scales of the block and of its part, as far as they are known. */
  blockAt(i, column) {
    const { grid, block } = this;
    const at = (width) => Math.floor(column / width);
    const found = (scales, width) => scales?.[i * (this.columns / width) + at(width)];
    const [scale, inner] = [found(grid.scales, grid.scale_width), found(grid.sub_scales, grid.sub_width)];
    return [
      block && `, block ${at(block)}`,
      scale !== undefined && ` with scale ${number(scale)}`,
      inner !== undefined && `, sub-block ${at(grid.sub_width)} with scale ${number(inner)}`,
    ].filter(Boolean).join('');
  }

  /** Says what is at the pointer. */
  point(event) {
    const { grid } = this;
    if (!grid) return;
    const [row, column] = this.at(event);
    const [i, j] = [cellOf(row, grid.rows, grid.height), cellOf(column, grid.columns, grid.width)];
    if (!(i >= 0 && j >= 0)) return;
    const cell = i * grid.width + j;
    const position = `row ${within(grid.rows, grid.height, i)}, column ${within(grid.columns, grid.width, j)}`;
    this.readout.textContent = this.single
      ? `${position}${this.blockAt(i, grid.columns[0] + j)}: ${Number.isFinite(grid.max[cell]) ? exact(grid.mean[cell]) : number(grid.max[cell])}`
      : `${position}: ${this.words[1]} ${number(grid.mean[cell])}, RMS ${number(grid.rms[cell])}, largest ${number(grid.max[cell])}`;
  }

  press(event) {
    if (event.button !== 0) return;
    this.start = this.at(event);
    this.canvas.setPointerCapture(event.pointerId);
  }

  move(event) {
    this.point(event);
    if (!this.start) return;
    const [, , x, y] = this.at(event);
    const [, , fromX, fromY] = this.start;
    Object.assign(this.box.style, {
      display: 'block', left: `${this.canvas.offsetLeft + Math.min(fromX, x)}px`, top: `${this.canvas.offsetTop + Math.min(fromY, y)}px`,
      width: `${Math.abs(x - fromX)}px`, height: `${Math.abs(y - fromY)}px`,
    });
  }

  /** Shows the part that was dragged over, or zooms in at a click. */
  release(event) {
    if (!this.start) return;
    const [first, end] = [this.start, this.at(event)];
    this.start = null;
    this.box.style.display = 'none';
    if (event.type !== 'pointerup') return;
    if (Math.hypot(end[2] - first[2], end[3] - first[3]) < 6) { this.zoom(0.25, end[0], end[1]); return; }
    const part = (a, b) => [Math.floor(Math.min(a, b)), Math.ceil(Math.max(a, b))];
    this.go([...part(first[0], end[0]), ...part(first[1], end[1])], true);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [top, bottom, left, right] = this.now;
    const step = (sign, span) => sign * Math.max(1, Math.round(span / 4));
    const move = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (move) {
      const [down, aside] = [step(move[0], bottom - top), step(move[1], right - left)];
      this.go([top + down, bottom + down, left + aside, right + aside]);
    } else if (event.key === '+' || event.key === '=') this.zoom(0.5);
    else if (event.key === '-') this.zoom(2);
    else if (event.key === '0') this.go(this.all, true);
    else if (event.key === 'Escape' || event.key === 'Backspace') this.back();
    else return;
    event.preventDefault();
  }

  /** The values of a row of cells. */
  line(i) { return Array.from(this.values.slice(i * this.grid.width, (i + 1) * this.grid.width)); }

  tabs() {
    return Array.from({ length: this.grid.height }, (_, i) => this.line(i).map(exact).join('\t')).join('\n');
  }

  csv() {
    const { grid } = this;
    const place = ([first, end], count, cell) => first + Math.floor((cell * (end - first)) / count);
    const lines = Array.from({ length: grid.height }, (_, i) => [place(grid.rows, grid.height, i), ...this.line(i)]);
    const heads = Array.from({ length: grid.width }, (_, j) => place(grid.columns, grid.width, j));
    take.csv(`${this.title} ${this.shown}`, ['row', ...heads], lines);
  }
}

/**
 * A heat map, as `{node, tools}`. `get(parameters, signal)` asks for a grid. `block` is the number of columns that share
 * a scale, if there is one; `view` is what to show first, `[row, row, column, column]`; `onview` is told what is in view.
 */
export const heatmap = ({ block = null, view = null, onview = null, words = ['Mean', 'mean'], ...rest }) => new HeatMap({ block, view, onview, words, ...rest });
