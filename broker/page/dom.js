// SPDX-License-Identifier: Apache-2.0
// Elements. Whatever the broker says becomes text, never markup: there is no other way here.

/** An element. `props`: properties and attributes; `on…`: listeners; `data`: its dataset. Children: elements, texts, lists. */
export function h(name, props, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'class') element.className = value;
    else if (key === 'data') Object.assign(element.dataset, value);
    else element.setAttribute(key, value === true ? '' : String(value));
  }
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== undefined && child !== null && child !== false);
}

/** Replaces what an element holds. */
export function fill(element, ...children) {
  element.replaceChildren(...flat(children));
  return element;
}

/** Sets a text only where it is another one, so that a reader's selection and the layout stay. */
export function say(element, text) {
  const said = String(text);
  if (element.textContent !== said) element.textContent = said;
}

const kSvg = 'http://www.w3.org/2000/svg';
const kIcons = {
  good: 'M4 12.500l5 5L20 6.500',
  notice: 'M12 7.500v6M12 17v.01M12 2.500a9.500 9.500 0 1 1 0 19a9.500 9.500 0 1 1 0-19',
  warning: 'M12 9v5M12 17.500v.01M12 3L22 20.500H2z',
  bad: 'M8 8l8 8M16 8l-8 8M8 2.500h8l5.500 5.500v8L16 21.500H8L2.500 16V8z',
  pause: 'M8 5v14M16 5v14',
};

/** A drawing beside a word: colour is never the only sign. */
export function icon(name) {
  const svg = document.createElementNS(kSvg, 'svg');
  svg.setAttribute('viewBox', '0 0 24 24');
  svg.setAttribute('class', `icon ${name}`);
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(kSvg, 'path');
  path.setAttribute('d', kIcons[name]);
  svg.append(path);
  return svg;
}

/** A small line of values; null leaves a gap. */
export function spark(values, name) {
  const width = 120, height = 28;
  const svg = document.createElementNS(kSvg, 'svg');
  svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
  svg.setAttribute('preserveAspectRatio', 'none');
  svg.setAttribute('class', 'spark');
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', name);
  const most = Math.max(1, ...values.filter((value) => value !== null));
  let line = '', pen = 'M';
  values.forEach((value, place) => {
    if (value === null) { pen = 'M'; return; }
    const x = values.length > 1 ? (place * width) / (values.length - 1) : 0;
    line += `${pen}${x.toFixed(1)} ${(height - 2 - (value * (height - 4)) / most).toFixed(1)}`;
    pen = 'L';
  });
  const path = document.createElementNS(kSvg, 'path');
  path.setAttribute('d', line || 'M0 0');
  svg.append(path);
  return svg;
}

/** A bar of how much is used. `share`: 0 to 1. */
export function meter(share, name, words) {
  const percent = Math.max(0, Math.min(100, Math.round(share * 100)));
  const bar = h('div', {
    class: `meter ${percent >= 95 ? 'bad' : percent >= 80 ? 'warning' : ''}`, role: 'meter', 'aria-label': name,
    'aria-valuemin': 0, 'aria-valuemax': 100, 'aria-valuenow': percent, 'aria-valuetext': words,
  }, h('i'));
  bar.firstChild.style.width = `${percent}%`;
  return bar;
}

/** A word with its sign. `level`: good, notice, warning, bad or pause. */
export function chip(level, text) {
  return h('span', { class: `chip ${level}` }, icon(level), text);
}

/**
 * A table whose rows stay the same elements while their keys do: focus and selection survive each update.
 * `columns`: { head, cell(row) → children, number, data(row) }.
 */
export class Table {
  constructor({ name, columns, key, empty, row }) {
    this.columns = columns;
    this.keyOf = key;
    this.decorate = row;
    this.rows = new Map();
    this.body = h('tbody');
    this.empty = h('p', { class: 'empty', hidden: true }, empty);
    this.element = h('div', { class: 'table' },
      h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': name },
        h('table', null, h('caption', { class: 'hidden' }, name),
          h('thead', null, h('tr', null, columns.map((column) =>
            h('th', { scope: 'col', class: column.number ? 'number' : undefined }, column.head)))),
          this.body)),
      this.empty);
  }

  update(list) {
    const seen = new Set();
    let before = null;
    for (const item of list) {
      const key = String(this.keyOf(item));
      if (seen.has(key)) continue;
      seen.add(key);
      let row = this.rows.get(key);
      if (!row) {
        row = { element: h('tr', null, this.columns.map((column, place) =>
          h(place === 0 ? 'th' : 'td', { scope: place === 0 ? 'row' : undefined, class: column.number ? 'number' : undefined, 'data-head': column.head }))), said: [] };
        this.rows.set(key, row);
      }
      this.columns.forEach((column, place) => this.put(row, place, column, item));
      this.decorate?.(row.element, item);
      const wanted = before ? before.nextSibling : this.body.firstChild;
      if (row.element !== wanted) this.body.insertBefore(row.element, wanted);
      before = row.element;
    }
    for (const [key, row] of this.rows)
      if (!seen.has(key)) { row.element.remove(); this.rows.delete(key); }
    this.empty.hidden = list.length > 0;
    this.element.firstChild.hidden = list.length === 0;
  }

  put(row, place, column, item) {
    const cell = row.element.children[place];
    const held = cell.contains(document.activeElement) && document.activeElement !== cell;
    const told = column.same?.(item);
    if (told !== undefined && row.said[place] === told) return;
    if (held && told === undefined) return;
    row.said[place] = told;
    const made = column.cell(item);
    if (typeof made === 'string' || typeof made === 'number') say(cell, made);
    else fill(cell, made);
    if (column.figure) Object.assign(cell.dataset, { figure: column.figure(item), value: column.value(item) });
  }
}
