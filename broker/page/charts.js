// SPDX-License-Identifier: Apache-2.0
// Lines over time, drawn by dygraphs.
/* global Dygraph */
import { h, fill } from './dom.js';
import { clock } from './words.js';

/** Told apart by people who see colours otherwise, on light and on dark; from the ninth on they begin anew, dashed. */
const kColours = ['--line-1', '--line-2', '--line-3', '--line-4', '--line-5', '--line-6', '--line-7', '--line-8'];
const kDashes = [null, [7, 3], [2, 2]];

// Its legend writes styles into its markup, which the page's policy refuses; the chart has one of its own.
Dygraph.PLUGINS = Dygraph.PLUGINS.filter((plugin) => plugin !== Dygraph.Plugins.Legend);

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
  /** `show`: a value in words. `most`: a fixed upper end. */
  constructor({ title, show, most, empty = 'Nothing yet.' }) {
    this.title = title;
    this.show = show;
    this.most = most;
    this.names = [];
    this.plot = h('div', { class: 'plot', 'aria-hidden': 'true' });
    this.legend = h('ul', { class: 'legend', 'aria-label': `${title}: now` });
    this.empty = h('p', { class: 'empty', hidden: true }, empty);
    this.at = h('span', { class: 'at' });
    this.element = h('figure', { class: 'chart' },
      h('figcaption', null, h('h3', null, title), this.at), this.plot, this.empty, this.legend);
  }

  /** `times`: ms; `lines`: [{ name, values }]. */
  update(times, lines) {
    const used = lines.filter((line) => line.values.some((value) => value !== null));
    const names = used.map((line) => line.name);
    this.empty.hidden = used.length > 0 && times.length > 1;
    this.plot.hidden = !this.empty.hidden;
    if (this.plot.hidden) { this.drop(); return fill(this.legend); }
    const rows = times.map((time, place) => [new Date(time), ...used.map((line) => line.values[place])]);
    this.rows = rows;
    if (this.graph && names.join('\n') === this.names.join('\n')) this.graph.updateOptions({ file: rows });
    else this.draw(names, rows);
    this.tell(rows.length - 1);
  }

  draw(names, rows) {
    this.drop();
    this.names = names;
    this.colours = names.map((name, place) => colour(kColours[place % kColours.length]));
    if (!this.plot.isConnected) return;  // of a view that was left: it has no measures
    const series = {};
    // A name is its place: what names hold is nobody's option.
    names.forEach((name, place) => {
      series[`${place}`] = { strokePattern: kDashes[Math.floor(place / kColours.length) % kDashes.length] };
    });
    this.graph = new Dygraph(this.plot, rows, {
      labels: ['time', ...names.map((name, place) => `${place}`)], colors: this.colours, series,
      legend: 'never', showLabelsOnHighlight: false, strokeWidth: 1.6, highlightCircleSize: 3, interactionModel: {},
      axisLineColor: colour('--rule'), gridLineColor: colour('--rule'), gridLineWidth: 0.6, includeZero: true,
      valueRange: this.most ? [0, this.most] : [0, null], xRangePad: 2, rightGap: 8, connectSeparatedPoints: false,
      axes: {
        x: { drawGrid: false, axisLabelWidth: 64, pixelsPerLabel: 84, axisLabelFormatter: (date) => short_clock(date) },
        y: { axisLabelWidth: 58, pixelsPerLabel: 34, axisLabelFormatter: (value) => this.show(value) },
      },
      highlightCallback: (event, x, points, row) => this.tell(row, true),
      unhighlightCallback: () => this.tell(this.rows.length - 1),
    });
  }

  /** Says the values of a row beside the names. */
  tell(row, pointed = false) {
    const values = this.rows[row];
    if (!values) return;
    this.at.textContent = pointed ? clock(values[0].getTime()) : '';
    fill(this.legend, this.names.map((name, place) => {
      const mark = h('i', { class: this.names.length > kColours.length && place >= kColours.length ? 'dashed' : undefined });
      mark.style.borderColor = this.colours[place];
      return h('li', null, mark, h('span', null, name), h('b', null, values[place + 1] === null ? '–' : this.show(values[place + 1])));
    }));
  }

  redraw() {
    if (this.graph) this.draw(this.names, this.rows);
  }

  drop() {
    this.graph?.destroy();
    this.graph = undefined;
    this.names = [];
  }
}

function short_clock(date) {
  return date.toLocaleTimeString('en-GB', { hour: '2-digit', minute: '2-digit' });
}
