// Plots the columns of a table with uPlot. The table on the page is the source and stays readable.
"use strict";

const MAX_SERIES = 6;
const COLOURS = ["--accent", "--bad", "--good", "--warn", "--text", "--muted"];

class LinePlot extends HTMLElement {
  connectedCallback() {
    this.table = document.getElementById(this.getAttribute("for"));
    if (!this.table || this.select || typeof uPlot === "undefined") return;
    this.columns = [...this.table.tHead.rows[0].cells].map((cell, index) => (
      { index, name: cell.dataset.name, kind: cell.dataset.kind }));
    if (this.table.tBodies[0].rows.length < 2 || !this.columns.some((each) => each.kind === "number")) return;
    this.addSelect();
    this.holder = document.createElement("div");
    this.holder.setAttribute("role", "img");
    this.holder.setAttribute("aria-label", "The numbers of the table as lines");
    this.append(this.holder);
    this.draw();
    this.redraw = () => this.draw();
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", this.redraw);
    addEventListener("resize", this.redraw);
  }

  disconnectedCallback() {
    if (!this.redraw) return;
    matchMedia("(prefers-color-scheme: dark)").removeEventListener("change", this.redraw);
    removeEventListener("resize", this.redraw);
  }

  addSelect() {
    const label = document.createElement("label");
    label.textContent = "Plot over ";
    this.select = document.createElement("select");
    for (const each of this.columns) this.select.add(new Option(each.name, each.index));
    const first = this.columns.find((each) => each.kind === "time") || this.columns[0];
    this.select.value = first.index;
    this.select.addEventListener("change", () => this.draw());
    label.append(this.select);
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.append(label);
    this.append(bar);
  }

  // Times are seconds in uPlot, and shown in UTC as in the table. A text has its row's number as place, and its own text as label.
  place(column, text, row) {
    if (column.kind === "text") return row;
    if (text === "") return null;
    const found = column.kind === "time" ? Date.parse(text.replace(" ", "T")) / 1000 : Number(text);
    return Number.isFinite(found) ? found : null;
  }

  draw() {
    const x = this.columns[this.select.value];
    const ys = this.columns.filter((each) => each.kind === "number" && each !== x).slice(0, MAX_SERIES);
    const rows = [...this.table.tBodies[0].rows].map((row) => [...row.cells].map((cell) => cell.textContent));
    const points = rows.map((cells, row) => (
      [this.place(x, cells[x.index], row), ...ys.map((each) => this.place(each, cells[each.index], row))]));
    const kept = points.filter((point) => point[0] !== null).sort((one, other) => one[0] - other[0]);
    const data = [0, ...ys].map((_, index) => kept.map((point) => point[index]));
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue(name).trim();
    const axis = { stroke: colour("--text"), grid: { stroke: colour("--line") }, ticks: { stroke: colour("--line") } };
    const timeOf = (place) => (place === null ? "" : new Date(place * 1000).toISOString().replace("T", " ").slice(0, 19));
    const times = (_, places) => places.map((place) => timeOf(place).slice(0, 16));
    const nameOf = (place) => (rows[place] ? rows[place][x.index] : "");
    const labels = (_, places) => places.map((place) => nameOf(place).slice(0, 12));
    const shown = { time: { values: times, space: 140 }, text: { values: labels, space: 90, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500] }, number: {} };
    const read = { time: (_, place) => timeOf(place), text: (_, place) => nameOf(place) };
    this.holder.replaceChildren();
    this.plot = new uPlot({
      width: Math.max(260, this.clientWidth),
      height: 320,
      scales: { x: { time: x.kind === "time" } },
      axes: [{ ...axis, ...shown[x.kind] }, { ...axis, size: 70 }],
      series: [{ label: x.name, ...(x.kind in read ? { value: read[x.kind] } : {}) }, ...ys.map((each, index) => (
        { label: each.name, stroke: colour(COLOURS[index]), width: 2, points: { show: kept.length < 60 } }))],
    }, data, this.holder);
  }
}

customElements.define("line-plot", LinePlot);
