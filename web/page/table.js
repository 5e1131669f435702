// A table whose rows exist only while they are in view, so that 100,000 of them scroll without delay.

import { h, say } from './dom.js';

/** Rows are higher where names need two lines. */
const rowHeight = () => (window.innerWidth <= 560 ? 56 : 34);
const HEAD = 38;
/** Rows kept above and below those in view. */
const SPARE = 6;

/**
 * A table. `columns` have a label, `cell(row)` which returns a text or a node, and may have `width`, `right`,
 * `hide` (a class for narrow windows) and `sort(row)`, which returns what to sort by. `rows` are any values.
 */
export class Table {
  constructor({ label, columns, rows, height = '68vh', sorted = null, descending = false, onsort = null, open = null, decorate = null, hint = null, empty = 'Nothing here.' }) {
    Object.assign(this, { label, columns, all: rows, rows, sorted, descending, onsort, open, decorate, emptyText: empty, active: -1, nodes: new Map(), rowHeight: rowHeight() });
    this.body = h('div', { class: 't-body', role: 'rowgroup' });
    // What a cell has no room for.
    this.body.addEventListener('pointerover', (event) => {
      const node = event.target.closest('.t-row');
      if (hint && node && !node.title) node.title = hint(this.rows[node.getAttribute('aria-rowindex') - 2]);
    });
    // A click anywhere in a row opens it, unless it is on a control or ends a selection of text.
    this.body.addEventListener('click', (event) => {
      const node = event.target.closest('.t-row');
      if (!this.open || !node || event.target.closest('a, button') || !getSelection().isCollapsed) return;
      this.activate(node.getAttribute('aria-rowindex') - 2);
      this.open(this.rows[this.active]);
    });
    if (open) this.body.classList.add('opens');
    this.headers = columns.map((column, place) => h('div', {
      role: 'columnheader', class: [column.right && 'right', column.hide].filter(Boolean).join(' '),
    }, column.sort ? h('button', { type: 'button', onclick: () => this.sortBy(place) }, column.label) : h('span', { class: 'plain' }, column.label)));
    this.box = h('div', {
      class: 'table', role: 'table', tabindex: 0, 'aria-label': label,
      'data-table': label, onscroll: () => this.later(), onkeydown: (event) => this.key(event),
    }, h('div', { class: 't-head', role: 'rowgroup' }), this.body);
    const line = h('div', { role: 'row', 'aria-rowindex': 1, class: 't-line' });
    line.style.display = 'contents';
    line.append(...this.headers);
    this.box.firstChild.append(line);
    this.most = height;
    this.measure = () => this.layout();
    this.watch = new ResizeObserver(this.measure);
    this.watch.observe(this.box);
    this.mark();
    this.order();
  }

  get node() {
    tables.set(this.box, this);
    return this.box;
  }

  layout() {
    const shown = this.columns.map((_, place) => getComputedStyle(this.headers[place]).display !== 'none');
    const widths = this.columns.filter((_, place) => shown[place]).map((column) => (window.innerWidth <= 560 ? column.narrow : null) ?? column.width ?? 'minmax(90px, 1fr)');
    this.box.style.setProperty('--cols', widths.join(' '));
    if (this.rowHeight !== rowHeight()) {
      this.rowHeight = rowHeight();
      this.order(true);
    }
    this.later();
  }

  /** Replaces the rows. */
  show(rows) {
    this.all = rows;
    this.order();
  }

  /** Shows the same rows again, after what they show has changed. */
  refresh() {
    if (this.sorted !== null) this.order(true);
    else { this.forget(); this.draw(); }
  }

  sortBy(place) {
    if (this.sorted === place) {
      // The third time restores the order of the file.
      if (this.descending === Boolean(this.columns[place].most)) this.descending = !this.descending;
      else { this.sorted = null; this.descending = false; }
    } else {
      this.sorted = place;
      this.descending = Boolean(this.columns[place].most);
    }
    this.mark();
    this.order();
    this.onsort?.(this.sorted === null ? null : `${this.columns[this.sorted].label}${this.descending ? ' down' : ' up'}`);
    say(this.sorted === null ? 'not sorted' : `sorted by ${this.columns[place].label}, ${this.descending ? 'descending' : 'ascending'}`);
  }

  /** Sorts as an address says: a label, and `up` or `down`. */
  sortAs(text) {
    const found = /^(.*) (up|down)$/.exec(text ?? '');
    const place = this.columns.findIndex((column) => column.sort && column.label === found?.[1]);
    if (place < 0) return;
    [this.sorted, this.descending] = [place, found[2] === 'down'];
    this.mark();
    this.order();
  }

  /** The place in the table, to come back to. */
  get place() { return { top: this.box.scrollTop, active: this.active }; }

  set place({ top, active }) {
    this.box.scrollTop = top;
    this.draw();
    this.activate(active);
  }

  activate(place) {
    if (place < 0 || place >= this.rows.length) return;
    this.nodes.get(this.active)?.classList.remove('active');
    this.active = place;
    this.nodes.get(place)?.classList.add('active');
  }

  mark() {
    this.headers.forEach((header, place) => {
      if (place !== this.sorted) { header.removeAttribute('aria-sort'); return; }
      header.setAttribute('aria-sort', this.descending ? 'descending' : 'ascending');
    });
    this.headers.forEach((header, place) => {
      const button = header.querySelector('button');
      if (button) button.textContent = this.columns[place].label + (place === this.sorted ? (this.descending ? ' ↓' : ' ↑') : '');
    });
  }

  order(stay = false) {
    this.rows = this.all;
    if (this.sorted !== null) {
      const { sort } = this.columns[this.sorted];
      const turn = this.descending ? -1 : 1;
      const keys = this.all.map((row, place) => [sort(row), place]);
      const missing = (key) => key === null || key === undefined || Number.isNaN(key);
      keys.sort(([a, i], [b, j]) => {
        if (missing(a) || missing(b)) return (missing(a) ? 1 : 0) - (missing(b) ? 1 : 0) || i - j;
        const way = typeof a === 'string' ? collator.compare(a, b) : a - b;
        return turn * way || i - j;
      });
      this.rows = keys.map(([, place]) => this.all[place]);
    }
    if (!stay) this.active = -1;
    const ROW = this.rowHeight;
    this.body.style.height = `${this.rows.length * ROW}px`;
    this.box.setAttribute('aria-rowcount', this.rows.length + 1);
    this.box.style.setProperty('--own', `min(${this.most}, ${Math.max(this.rows.length * ROW, ROW * 2) + HEAD + 16}px)`);
    if (!stay) this.box.scrollTop = 0;
    this.forget();
    this.draw();
  }

  forget() {
    for (const node of this.nodes.values()) node.remove();
    this.nodes.clear();
  }

  later() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    if (this.rows.length === 0) {
      if (!this.nothing) {
        this.nothing = h('div', { class: 'empty', role: 'row' }, h('div', { role: 'cell' }, this.emptyText));
        this.body.append(this.nothing);
      }
      return;
    }
    this.nothing?.remove();
    this.nothing = null;
    const height = this.box.clientHeight || 600;
    const ROW = this.rowHeight;
    const first = Math.max(0, Math.floor((this.box.scrollTop - HEAD) / ROW) - SPARE);
    const end = Math.min(this.rows.length, Math.ceil((this.box.scrollTop + height) / ROW) + SPARE);
    for (const [place, node] of this.nodes) {
      if (place < first || place >= end) { node.remove(); this.nodes.delete(place); }
    }
    const fresh = [];
    for (let place = first; place < end; place += 1) {
      if (this.nodes.has(place)) continue;
      const node = this.row(place);
      this.nodes.set(place, node);
      fresh.push(node);
    }
    if (fresh.length > 0) this.body.append(...fresh);
  }

  /** A row without content, which is copied for each row. */
  get blank() {
    this.empty ??= h('div', { class: 't-row', role: 'row' }, this.columns.map((column) => h('div', { role: 'cell', class: [column.right && 'right', column.wraps && 'wraps', column.hide].filter(Boolean).join(' ') || null })));
    return this.empty;
  }

  row(place) {
    const row = this.rows[place];
    const node = this.blank.cloneNode(true);
    node.setAttribute('aria-rowindex', place + 2);
    node.style.transform = `translateY(${place * this.rowHeight}px)`;
    let cell = node.firstChild;
    for (const column of this.columns) {
      cell.append(column.cell(row));
      cell = cell.nextSibling;
    }
    if (place === this.active) node.classList.add('active');
    this.decorate?.(node, row);
    return node;
  }

  key(event) {
    const ROW = this.rowHeight;
    const page = Math.max(1, Math.floor(this.box.clientHeight / ROW) - 2);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity }[event.key];
    if (event.key === 'Enter' && event.target === this.box && this.active >= 0) {
      this.open?.(this.rows[this.active]);
      return;
    }
    if (step === undefined || event.target !== this.box || event.metaKey || event.ctrlKey || event.altKey) return;
    event.preventDefault();
    const from = this.active < 0 ? (step > 0 ? -1 : 0) : this.active;
    const place = Math.min(this.rows.length - 1, Math.max(0, from + step));
    this.activate(place);
    const top = place * ROW;
    if (top < this.box.scrollTop) this.box.scrollTop = top;
    const low = top + ROW + HEAD - this.box.clientHeight;
    if (low > this.box.scrollTop) this.box.scrollTop = low;
    this.draw();
    this.nodes.get(place)?.classList.add('active');
    say(this.nodes.get(place)?.textContent ?? '');
  }
}

/** The tables by their nodes. */
const tables = new WeakMap();

/** The places in all tables of the page, by label. */
export function placesOf(main) {
  return Object.fromEntries([...main.querySelectorAll('[data-table]')].map((box) => [box.dataset.table, tables.get(box)?.place]));
}

/** Goes back to places in the tables of the page. */
export function restore(main, places) {
  for (const box of main.querySelectorAll('[data-table]')) {
    const place = places[box.dataset.table];
    if (place && tables.has(box)) tables.get(box).place = place;
  }
}

const collator = new Intl.Collator('en', { numeric: true });
