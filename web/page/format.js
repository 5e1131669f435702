// Numbers as text, as the program prints them.

const many = new Intl.NumberFormat('en');

/** A count with separators: 1,234,567. */
export const whole = (count) => many.format(count);

/** A count in powers of 1000: 1.31 M. */
export function count(value) {
  const units = ['', ' k', ' M', ' B', ' T'];
  let unit = 0;
  let size = value;
  while (size >= 1000 && unit + 1 < units.length) { size /= 1000; unit += 1; }
  return unit === 0 ? String(value) : size.toFixed(2) + units[unit];
}

const UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB'];

/** The power of 1024 in which as many bytes are written. */
const power = (value) => UNITS.findIndex((_, unit) => value < 1024 ** (unit + 1) || unit + 1 === UNITS.length);

/** Bytes in powers of 1024: 1.3 MiB. Several numbers that belong together have the unit of the `largest`. */
export function bytes(value, largest = value) {
  const unit = value === 0 ? 0 : power(largest);
  return unit === 0 ? `${value}\u00a0B` : `${(value / 1024 ** unit).toFixed(1)}\u00a0${UNITS[unit]}`;
}

/** NaN and the infinities are texts in the answers. */
export function parsed(value) {
  if (typeof value !== 'string') return value;
  return { NaN, Infinity, '-Infinity': -Infinity }[value] ?? NaN;
}

/** A number with four significant digits: 0.01234, 1.234e-7. */
export function number(raw) {
  const value = parsed(raw);
  if (value === null || value === undefined) return '–';
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '∞' : '−∞';
  if (value === 0) return '0';
  const size = Math.abs(value);
  const text = size >= 0.001 && size < 1e6 ? String(Number(value.toPrecision(size >= 1000 ? Math.ceil(Math.log10(size + 1)) : 4))) : value.toExponential(3);
  return text.replace('-', '−').replace('e−', 'e-').replace('e-', 'e−').replace('e+', 'e');
}

/** A number with every digit of an f32. */
export function exact(raw) {
  const value = parsed(raw);
  if (!Number.isFinite(value)) return number(value);
  for (let digits = 6; digits < 10; digits += 1) {
    const text = value.toPrecision(digits);
    if (Math.fround(Number(text)) === Math.fround(value)) return String(Number(text));
  }
  return String(value);
}

/** A share of a whole: 0.02 %. */
export function percent(share) {
  const value = parsed(share);
  if (value === null || value === undefined) return '–';
  if (!Number.isFinite(value)) return number(value);
  if (value === 0) return '0\u00a0%';
  const parts = value * 100;
  return `${parts >= 99.995 ? '100' : parts >= 0.001 ? Number(parts.toPrecision(3)) : parts.toExponential(1)}\u00a0%`;
}

export const bits = (value) => (value === null || value === undefined ? '–' : value.toFixed(2));
export const shape = (dims) => (dims.length === 0 ? 'scalar' : dims.join(' × '));
export const elements = (dims) => dims.reduce((product, dim) => product * dim, 1);
export const plural = (number, noun, several = `${noun}s`) => `${whole(number)} ${number === 1 ? noun : several}`;

/** A tensor as a matrix: the number of rows, counted over all dimensions but the last, and of columns. */
export const sides = (dims) => [elements(dims.slice(0, -1)), dims.at(-1) ?? 1];

/** The last component of a path. */
export const base = (path) => path.replace(/[/\\]+$/, '').split(/[/\\]/).pop() || path;

/** A word for a shell. */
export function quoted(word) {
  return /^[A-Za-z0-9_@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

/** Ticks at round numbers within a range. */
export function ticks(low, high, most = 5) {
  const span = high - low;
  if (!(span > 0)) return [low];
  const rough = span / most;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= rough) ?? rough;
  const found = [];
  for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-9; at += step) found.push(Math.abs(at) < step * 1e-9 ? 0 : at);
  return found;
}

/** Ticks at round numbers of bytes. */
export function byteTicks(low, high, most) {
  const unit = 1024 ** power(high);
  return ticks(low / unit, high / unit, most).map((at) => at * unit);
}
