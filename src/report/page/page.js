// Draws the report from the summary's JSON (what `swoop compile --json` prints). Names in it come from files: they only
// ever become text, never markup.
"use strict";
(() => {
const summary = JSON.parse(document.getElementById("summary").textContent);

// -- elements and numbers

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (name === "style" && value) element.style.cssText = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child != null && child !== false));
  return element;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const thousands = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const count = (n) => thousands.format(n);
const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;
function bytes(n) {
  if (n < 10000) return `${count(n)} B`;
  if (n < 10000000) return `${(n / 1024).toFixed(1)} KiB`;
  return `${(n / 1024 / 1024).toFixed(1)} MiB`;
}
const short = (n) => (n < 10000 ? count(n) : n < 1e6 ? `${(n / 1e3).toFixed(n < 1e5 ? 1 : 0)} k` : `${(n / 1e6).toFixed(n < 1e8 ? 1 : 0)} M`);
const milliseconds = (ms) => (ms >= 100 ? `${count(ms)} ms` : `${ms.toPrecision(3)} ms`);
const percent = (share) => (share > 0 && share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`);
const decibels = (db) => `${db.toFixed(1)} dB`;
const sum = (list) => list.reduce((a, b) => a + b, 0);
const file = (path) => path.split(/[\\/]/).pop();

// -- what the sections share

const totals = summary.totals;
const layers = summary.regions.flatMap((region, index) => region.layers.map((layer) => ({ ...layer, region: index })));
let clock = 0;
layers.forEach((layer, order) => {
  layer.order = order;
  layer.start = clock;
  clock += layer.cycles;
});
const share = (cycles) => (clock ? cycles / clock : 0);
const accuracy = summary.accuracy;
const hostKernels = sum(Object.values(summary.host_ops));

const main = document.getElementById("main");
const nav = document.getElementById("nav");
function section(id, title, intro, ...children) {
  nav.append(el("a", { href: `#${id}` }, title));
  main.append(el("section", { id, "aria-labelledby": `${id}-title` }, el("h2", { id: `${id}-title` }, title), intro && el("p", { class: "quiet" }, intro), ...children));
}

// Draws once per frame, however often the browser says that the box was scrolled.
function onScroll(box, draw) {
  let waiting = false;
  box.addEventListener("scroll", () => {
    if (waiting) return;
    waiting = true;
    requestAnimationFrame(() => { waiting = false; draw(); });
  });
}

// Calls draw(width) now and whenever the width changes.
function onWidth(element, draw) {
  let last = 0;
  new ResizeObserver(() => {
    const width = element.clientWidth;
    if (width && width !== last) draw((last = width));
  }).observe(element);
}

// A table of any length that sorts and searches: only the rows in view are in the document.
function table({ label, rows, columns, search, sort }) {
  let shown = rows;
  let rowHeight = 35;
  let printing = false;
  let order = sort;
  const heads = columns.map((column) =>
    el("th", { scope: "col", class: classOf(column), style: column.width && `--width: ${column.width}` },
      el("button", { type: "button", onclick: () => sortBy(column) }, column.title)));
  const body = el("tbody");
  const box = el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label },
    el("table", { "aria-rowcount": rows.length + 1 }, el("thead", {}, el("tr", {}, heads)), body));
  const found = el("output", { "aria-live": "polite" });
  const input = el("input", { type: "search", placeholder: "Search", "aria-label": `Search ${label}`, oninput: update });
  const nothing = el("p", { class: "empty", hidden: true }, "Nothing matches.");
  box.append(nothing);

  function classOf(column) {
    return [column.number && "number", column.extra && "extra"].filter(Boolean).join(" ") || null;
  }
  function sortBy(column) {
    const same = order.column === column.title;
    order = { column: column.title, down: same ? !order.down : Boolean(column.number) };
    update();
  }
  function update() {
    const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
    shown = words.length ? rows.filter((row) => { const text = search(row).toLowerCase(); return words.every((word) => text.includes(word)); }) : rows.slice();
    const column = columns.find((c) => c.title === order.column);
    const way = order.down ? -1 : 1;
    shown.sort((a, b) => {
      const x = column.value(a), y = column.value(b);
      if (x == null || y == null) return (x == null) - (y == null);  // what is not known comes last
      return way * (typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : x - y);
    });
    heads.forEach((head, i) => head.setAttribute("aria-sort", columns[i] !== column ? "none" : order.down ? "descending" : "ascending"));
    found.textContent = shown.length === rows.length ? plural(rows.length, "row") : `${count(shown.length)} of ${plural(rows.length, "row")}`;
    nothing.hidden = shown.length > 0;
    box.scrollTop = 0;
    draw();
  }
  // One cell: on a phone, where columns are hidden, a wider one would make columns of its own.
  const space = (height) => el("tr", { class: "space", "aria-hidden": true }, el("td", { style: `height: ${height}px` }));
  function draw() {
    const first = printing ? 0 : Math.max(0, Math.floor(box.scrollTop / rowHeight) - 8);
    const last = Math.min(shown.length, printing ? 60 : first + Math.ceil((box.clientHeight || 600) / rowHeight) + 18);
    const drawn = shown.slice(first, last).map((row, i) =>
      el("tr", { "aria-rowindex": first + i + 2 }, columns.map((column) =>
        el(column.head ? "th" : "td", { scope: column.head && "row", class: classOf(column), title: column.hint?.(row) }, column.cell(row)))));
    const rest = shown.length - last;
    body.replaceChildren(
      ...(first ? [space(first * rowHeight)] : []), ...drawn,
      ...(!rest ? [] : printing ? [el("tr", {}, el("td", { colspan: columns.length, class: "quiet" }, `and ${plural(rest, "more row")} in this order`))] : [space(rest * rowHeight)]));
    const measured = drawn[1]?.getBoundingClientRect().height;
    if (measured && Math.abs(measured - rowHeight) > 0.01 && !printing) {
      rowHeight = measured;
      draw();
    }
  }
  onScroll(box, draw);
  onWidth(box, draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  update();
  return [el("div", { class: "tools" }, input, found), box];
}

function plainTable(heads, rows) {
  const cell = (content, i, tag) => el(tag, { class: heads[i].number && "number", scope: tag === "th" && "col" }, content);
  return el("div", { class: "wide", tabindex: 0, role: "region", "aria-label": heads[0].title },
    el("table", {}, el("thead", {}, el("tr", {}, heads.map((head, i) => cell(head.title, i, "th")))),
      el("tbody", {}, rows.map((row) => el("tr", {}, row.map((content, i) => cell(content, i, "td")))))));
}

function bars(items) {
  const most = Math.max(1e-9, ...items.map((item) => item.size));
  return el("ul", { class: "bars" }, items.map((item) =>
    el("li", {}, el("span", { class: "label", title: item.hint }, item.label),
      el("span", { class: "track" },
        item.size != null && el("span", { class: item.rest ? "bar rest" : "bar", style: `--size: ${item.size / most}` }),
        el("span", { class: "value" }, item.value)))));
}

const where = (row) => [row.source && el("span", { class: "mono" }, row.source), row.code && el("code", {}, ` ${row.code.trim()}`)];

// -- the verdict

function checkedText() {
  if (!accuracy || accuracy.bit_exact == null) return "not checked";
  if (!summary.regions.length) return "nothing to check on the NPU";
  return "bit for bit exact";
}
function accuracyText() {
  if (accuracy?.labels) return `top-1 ${percent(accuracy.labels.top1)}${accuracy.labels.float_top1 == null ? "" : ` (float ${percent(accuracy.labels.float_top1)})`}`;
  const known = (accuracy?.sqnr_db ?? []).filter((db) => db != null);
  if (known.length) return `${decibels(Math.min(...known))} against float`;
  if (accuracy?.max_error?.length && accuracy.max_error.every((error) => error === 0)) return "equal to float";
  return "accuracy not measured";
}
// "SRAM fits", of a board's memory.
const fitText = (memory) => `${memory.name} ${memory.fits == null ? "not known" : memory.fits ? "fits" : "does not fit"}`;

function verdict() {
  const regions = summary.regions.length;
  const hosts = hostKernels ? `${plural(hostKernels, "operator")} on the host` : "nothing on the host";
  const place = !regions ? "Nothing runs on the NPU" : `${milliseconds(totals.inference_ms)} in ${regions === 1 ? "one NPU region" : `${count(regions)} NPU regions`}, ${hosts}`;
  const limits = [["sram_bytes", "SRAM"], ["flash_bytes", "flash"]].filter(([name]) => summary.limits[name] != null)
    .map(([name, memory]) => `${bytes(summary.limits[name])} of ${memory}`);
  const board = summary.board && `${summary.board.name}: ${summary.board.memories.map(fitText).join(", ")}; `;
  return `${board || ""}${limits.length ? `Fits in ${limits.join(" and ")}; ` : ""}${place}; ${checkedText()}; ${accuracyText()}.`;
}
const text = (id, value) => { document.getElementById(id).textContent = value; };
document.title = `${file(summary.model)} on ${summary.target}`;
text("model", file(summary.model));
text("target", `on ${summary.target}, ${summary.system_config}, ${summary.memory_mode}`);
text("verdict", verdict());
document.getElementById("caveats").append(...summary.warnings.map((warning) => el("li", {}, warning)));
const tile = (name, value, note) => el("div", {}, el("dt", {}, name), el("dd", {}, value, note && el("small", {}, note)));
document.getElementById("tiles").append(
  tile("Time per inference", milliseconds(totals.inference_ms), "estimated, NPU only"),
  tile("Cycles", count(totals.total_cycles), "estimated"),
  tile("SRAM", bytes(totals.sram_bytes), "at the peak"),
  tile("Flash", bytes(totals.flash_bytes), totals.dram_bytes ? `and ${bytes(totals.dram_bytes)} of DRAM` : "weights and tables"),
  tile("Program", bytes(summary.pte_bytes), ".pte file"),
  tile("Multiply-adds", short(totals.macs), totals.total_cycles ? `${(totals.macs / totals.total_cycles).toFixed(0)} per cycle` : null));

// -- the sweep

// Latency against SRAM, both by factors: NPUs differ by far more than one.
function scatter(points) {
  const height = 340, left = 64, right = 20, top = 16, bottom = 300;
  const families = [...new Set(points.map((point) => point.target.replace(/-[^-]*$/, "")))];
  const kind = (point) => families.indexOf(point.target.replace(/-[^-]*$/, "")) % 5;
  const front = points.filter((point) => point.front).sort((a, b) => a.sram_bytes - b.sram_bytes);
  const drawing = svg("svg", { height, role: "img", "aria-label": `Latency against SRAM of ${plural(points.length, "build")}; ${count(front.length)} of them on the Pareto front` });
  // Marks at round numbers, closer together where few would be inside.
  function scale(values, from, to) {
    const low = Math.log10(Math.min(...values) / 1.25), high = Math.log10(Math.max(...values) * 1.25);
    const place = (value) => from + (to - from) * (Math.log10(value) - low) / (high - low);
    const powers = Array.from({ length: Math.ceil(high) - Math.floor(low) }, (_, i) => 10 ** (Math.floor(low) + i));
    const inside = (digits) => powers.flatMap((power) => digits.map((digit) => digit * power)).filter((mark) => Math.log10(mark) > low && Math.log10(mark) < high);
    const coarse = inside([1, 2, 5]);
    return { place, marks: coarse.length > 2 ? coarse : inside([1, 1.5, 2, 2.5, 3, 4, 5, 6, 8]) };
  }
  const kib = (point) => Math.max(point.sram_bytes, 1) / 1024;
  const hint = (point) => `${point.target}, ${point.memory_mode}: ${milliseconds(point.inference_ms)}, ${bytes(point.sram_bytes)} of SRAM${point.why ? `; ${point.why}` : ""}`;
  function draw(width) {
    const x = scale(points.map(kib), left, width - right), y = scale(points.map((point) => point.inference_ms), bottom, top);
    const at = (point) => [x.place(kib(point)).toFixed(1), y.place(point.inference_ms).toFixed(1)];
    const parts = [
      ...x.marks.map((mark) => [svg("line", { x1: x.place(mark), x2: x.place(mark), y1: top, y2: bottom, stroke: "var(--line)" }),
        svg("text", { x: x.place(mark), y: bottom + 18, "text-anchor": "middle", class: "quiet" }, Number(mark.toPrecision(2)))]),
      ...y.marks.map((mark) => [svg("line", { x1: left, x2: width - right, y1: y.place(mark), y2: y.place(mark), stroke: "var(--line)" }),
        svg("text", { x: left - 8, y: y.place(mark) + 4, "text-anchor": "end", class: "quiet" }, `${Number(mark.toPrecision(2))} ms`)]),
      svg("text", { x: width - right, y: bottom + 34, "text-anchor": "end", class: "quiet" }, "SRAM, KiB"),
      svg("path", { class: "front", d: front.map((point, i) => (i ? `H${at(point)[0]}V${at(point)[1]}` : `M${at(point).join(" ")}`)).join("") }),
      ...points.map((point) => svg("circle", { class: `build${point.front ? " on-front" : ""}${point.fits ? "" : " too-much"}`, style: `--kind: var(--kind-${kind(point)})`,
        cx: at(point)[0], cy: at(point)[1], r: point.front ? 6 : 4 }, svg("title", {}, hint(point))))];
    let free = Infinity;  // names that would run into the one above stay away: the table has them
    for (const point of [...front].reverse().sort((a, b) => b.inference_ms - a.inference_ms)) {
      const [cx, cy] = at(point).map(Number);
      if (Math.abs(free - cy) < 14) continue;
      free = cy;
      const after = cx < width * 0.6;
      parts.push(svg("text", { x: cx + (after ? 10 : -10), y: cy - 8, "text-anchor": after ? "start" : "end" }, point.target.replace("ethos-", "")));
    }
    drawing.replaceChildren(...parts.flat());
  }
  const frame = el("div", { style: `height: ${height}px` }, drawing);
  onWidth(frame, draw);
  return el("figure", { class: "sweep" }, frame,
    el("ul", { class: "legend" }, families.map((family, i) => el("li", {}, el("i", { style: `background: var(--kind-${i % 5})` }), family)),
      el("li", {}, "large, with the line: on the Pareto front"), points.some((point) => !point.fits) && el("li", {}, "hollow: breaks a limit")));
}
if (summary.sweep) {
  const built = summary.sweep.filter((point) => point.inference_ms != null);
  const figure = (title, name, format, width, extra) => ({ title, number: true, extra, width, value: (row) => row[name], cell: (row) => (row[name] == null ? "\u2013" : format(row[name])) });
  const answer = (row) => (row.inference_ms == null ? "not built" : row.fits ? "yes" : "no");
  section("sweep", "Sweep", `Each NPU in each of its memory modes. No other build is faster in as little SRAM than one on the Pareto front. The rest of this page is about ${summary.target} in ${summary.memory_mode}, the fastest${summary.sweep.some((point) => point.fits) ? " that fits" : ""}.`,
    scatter(built),
    table({
      label: "builds", rows: summary.sweep, sort: { column: "Time, ms", down: false },
      search: (row) => `${row.target} ${row.memory_mode} ${row.front ? "front" : ""} ${row.why ?? ""}`,
      columns: [
        { title: "NPU", head: true, value: (row) => row.target, cell: (row) => row.target.replace("ethos-", ""), hint: (row) => row.target },
        { title: "Memory mode", extra: true, width: "12rem", value: (row) => row.memory_mode, cell: (row) => row.memory_mode },
        figure("Time, ms", "inference_ms", (ms) => ms.toPrecision(3), "7rem"), figure("SRAM, KiB", "sram_bytes", (n) => (n / 1024).toFixed(1), "8rem"),
        { title: "Fits", width: "6rem", value: answer, cell: answer, hint: (row) => row.why },
        figure("Flash", "flash_bytes", bytes, "7rem", true), figure("SQNR", "sqnr_db", decibels, "6.5rem", true),
        { title: "Front", extra: true, width: "5.5rem", value: (row) => (row.front ? 0 : 1), cell: (row) => (row.front ? "yes" : "") },
      ],
    }));
}

// -- layers

function byName() {
  const groups = new Map();
  for (const layer of layers) {
    const group = groups.get(layer.name);
    if (group) group.cycles += layer.cycles;
    else groups.set(layer.name, { ...layer });
  }
  return [...groups.values()].sort((a, b) => b.cycles - a.cycles);
}
if (layers.length) {
  const groups = byName();
  const top = groups.slice(0, 12);
  const rest = groups.slice(12);
  const items = top.map((group) => ({ label: group.name, hint: `${group.name} ${group.source}`, size: group.cycles, value: [el("span", { class: "extra" }, `${count(group.cycles)} `), percent(share(group.cycles))] }));
  if (rest.length) {
    const cycles = sum(rest.map((group) => group.cycles));
    // A bar many times as long as the others would make them vanish: then the number stands alone.
    items.push({ label: `${count(rest.length)} others`, rest: true, size: cycles <= top[0].cycles ? cycles : null, value: [el("span", { class: "extra" }, `${count(cycles)} `), percent(share(cycles))] });
  }
  const most = Math.max(1, ...layers.map((layer) => layer.cycles));
  const several = summary.regions.length > 1;
  section("layers", "Layers", "Estimated cycles. What a layer of the model was expanded into counts as one in the chart; the table has each operation of the NPU.",
    bars(items),
    table({
      label: "layers", rows: layers, sort: { column: "Cycles", down: true },
      search: (row) => `${row.name} ${row.op} ${row.source} ${row.module} ${row.code} ${summary.regions[row.region].name}`,
      columns: [
        { title: "#", number: true, extra: true, width: "4.25rem", value: (row) => row.order, cell: (row) => count(row.order + 1) },
        { title: "Layer", head: true, width: "", value: (row) => row.name, cell: (row) => row.name, hint: (row) => [row.name, row.module].filter(Boolean).join(" in ") },
        { title: "Operation", extra: true, width: "10.75rem", value: (row) => row.op, cell: (row) => row.op },
        ...(several ? [{ title: "Region", extra: true, width: "6.5rem", value: (row) => row.region, cell: (row) => summary.regions[row.region].name }] : []),
        { title: "Cycles", number: true, width: "7rem", value: (row) => row.cycles, cell: (row) => count(row.cycles) },
        { title: "Share", number: true, width: "8.75rem", value: (row) => row.cycles,
          cell: (row) => [el("span", { class: "share extra", style: `width: ${3 * row.cycles / most}rem` }), percent(share(row.cycles))] },
        { title: "SRAM", number: true, extra: true, width: "6.5rem", value: (row) => row.sram_bytes, cell: (row) => bytes(row.sram_bytes) },
        { title: "Source", extra: true, width: "25%", value: (row) => row.source, cell: where, hint: (row) => [row.source, row.module, row.code].filter(Boolean).join("\n") },
      ],
    }));
}

// -- the schedule

function kinds() {
  const cycles = new Map();
  for (const layer of layers) cycles.set(layer.op, (cycles.get(layer.op) ?? 0) + layer.cycles);
  return [...cycles].sort((a, b) => b[1] - a[1]).map(([op]) => op);
}
function timeline() {
  const names = kinds();
  const kindOf = new Map(names.map((name, i) => [name, Math.min(i, 5)]));
  const peak = Math.max(1, ...layers.map((layer) => layer.sram_bytes));
  const limit = summary.limits.sram_bytes;
  const top = limit != null && limit < 4 * peak ? Math.max(limit, peak) : peak;
  const height = 182, left = 72, right = 12, plot = 132, strip = 18;
  const drawing = svg("svg", { height, role: "img", "aria-label": "SRAM held over the schedule, and which operation runs" });
  const cursor = svg("line", { y1: 8, y2: plot + strip + 10, stroke: "var(--ink)", "stroke-opacity": 0.5, visibility: "hidden" });
  const read = el("output", { class: "quiet", "aria-live": "polite" }, "Move over the chart, or focus it and use the arrow keys.");
  let at = -1;
  let x = (cycles) => cycles;
  function show(index) {
    at = Math.max(0, Math.min(layers.length - 1, index));
    const layer = layers[at];
    const middle = x(layer.start + layer.cycles / 2);
    fill(cursor, { x1: middle, x2: middle, visibility: "visible" }, []);
    read.textContent = `${layer.name}, ${layer.op}: ${count(layer.cycles)} cycles from ${count(layer.start)}, ${bytes(layer.sram_bytes)} of SRAM${layer.source ? `, ${layer.source}` : ""}`;
  }
  function find(cycle) {
    let low = 0, high = layers.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (layers[middle].start <= cycle) low = middle; else high = middle - 1;
    }
    while (low > 0 && !layers[low].cycles && layers[low - 1].start <= cycle && layers[low].start > cycle) --low;
    return low;
  }
  function draw(width) {
    x = (cycles) => left + (width - left - right) * share(cycles);
    const y = (amount) => 12 + (plot - 12) * (1 - amount / top);
    let path = `M${left} ${plot}`;
    const blocks = [];
    let block = null;
    for (const layer of layers) {
      if (!layer.cycles) continue;
      const from = x(layer.start), to = x(layer.start + layer.cycles);
      path += `V${y(layer.sram_bytes).toFixed(1)}H${to.toFixed(1)}`;
      const kind = kindOf.get(layer.op);
      if (block && (block.kind === kind ? to - block.from < 3 || block.to === from && layers.length > 2000 : to - block.from < 1)) { block.to = to; continue; }
      blocks.push(block = { from, to, kind });
    }
    const ticks = [0, 0.25, 0.5, 0.75, 1];
    drawing.replaceChildren(
      ...[0, 0.5, 1].map((part) => [
        svg("line", { x1: left, x2: width - right, y1: y(part * top), y2: y(part * top), stroke: "var(--line)" }),
        svg("text", { x: left - 8, y: y(part * top) + 4, "text-anchor": "end", class: "quiet" }, bytes(Math.round(part * top)))]).flat(),
      svg("path", { d: `${path}V${plot}Z`, fill: "var(--accent-soft)", stroke: "var(--accent)", "stroke-width": layers.length > 1000 ? 0 : 1 }),
      ...blocks.map((b) => svg("rect", { x: b.from, y: plot + 6, width: Math.max(0.5, b.to - b.from - (b.to - b.from > 3 ? 0.75 : 0)), height: strip, fill: `var(--kind-${b.kind})` })),
      ...(limit != null && limit <= top ? [svg("line", { x1: left, x2: width - right, y1: y(limit), y2: y(limit), stroke: "var(--bad)", "stroke-dasharray": "5 4" })] : []),
      ...ticks.filter((_, i) => width > 500 || i % 2 === 0).map((part) => svg("text", { x: x(part * clock), y: plot + strip + 24, class: "quiet", "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle" }, short(Math.round(part * clock)))),
      svg("text", { x: left - 8, y: plot + 19, "text-anchor": "end", class: "quiet" }, "running"),
      cursor);
    if (at >= 0) show(at);
  }
  const frame = el("div", { tabindex: 0, role: "group", "aria-label": "Schedule", style: `height: ${height}px` }, drawing);
  frame.addEventListener("pointermove", (event) => {
    const box = frame.getBoundingClientRect();
    const part = (event.clientX - box.left - left) / (box.width - left - right);
    if (part >= 0 && part <= 1) show(find(part * clock));
  });
  frame.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, PageDown: 20, PageUp: -20 }[event.key];
    if (!step) return;
    event.preventDefault();
    show(at + step);
  });
  onWidth(frame, draw);
  const legend = names.slice(0, 5).map((name, i) => el("li", {}, el("i", { style: `background: var(--kind-${i})` }), name));
  if (names.length > 5) legend.push(el("li", {}, el("i", { style: "background: var(--kind-5)" }), "other"));
  return el("figure", {}, frame, el("ul", { class: "legend" }, legend), el("figcaption", {}, read));
}
if (clock) {
  const regions = summary.regions.length > 1 ? " Regions follow one another; what the host does between them is not in it." : "";
  section("schedule", "Schedule", `SRAM held while each operation runs, over the estimated cycles.${regions}`, timeline());
}

// -- the graph

// A row per node of the program; a region's row is followed by those of its layers.
function graphRows() {
  const rows = [], edges = [];
  const reasons = new Map(summary.host_reasons.map((reason) => [reason.node, reason]));
  const outer = [];
  for (const node of summary.nodes) {
    const row = rows.length;
    outer.push(row);
    for (const input of new Set(node.inputs)) edges.push([outer[input], row]);
    if (node.region == null) {
      const border = node.op === "quantize" || node.op === "dequantize";
      const reason = reasons.get(node.name);
      rows.push({ name: node.name, op: node.op, kind: border ? "border" : "host", note: border ? "border" : reason ? `host: ${reason.reason}` : "host" });
      continue;
    }
    const region = summary.regions[node.region];
    rows.push({ name: region.name, op: `${plural(region.tosa_ops, "operator")} on the NPU`, kind: "region", cycles: region.total_cycles });
    const cycles = new Map();
    for (const layer of region.layers) cycles.set(layer.name, (cycles.get(layer.name) ?? 0) + layer.cycles);
    const last = new Map(region.nodes.map((inner, i) => [inner.name, i]));  // what a layer was expanded into is one row
    const rowOf = new Map();
    const operators = new Map();
    region.nodes.forEach((inner, i) => {
      operators.set(inner.name, (operators.get(inner.name) ?? new Set()).add(inner.op));
      if (last.get(inner.name) !== i) return;
      rowOf.set(inner.name, rows.length);
      rows.push({ name: inner.name, op: [...operators.get(inner.name)].join(", "), kind: "layer", cycles: cycles.get(inner.name) ?? 0 });
    });
    const seen = new Set();
    for (const inner of region.nodes) {
      for (const input of inner.inputs) {
        const a = rowOf.get(region.nodes[input].name), b = rowOf.get(inner.name);
        if (a === b || seen.has(`${a} ${b}`)) continue;
        seen.add(`${a} ${b}`);
        edges.push(a < b ? [a, b] : [b, a]);
      }
    }
  }
  return { rows, edges };
}
// Edges that pass rows run beside them, each in the first free lane.
function lanesOf(edges) {
  const most = 12, ends = [];
  const long = edges.filter(([a, b]) => b - a > 1).sort((p, q) => p[0] - q[0] || p[1] - q[1]);
  for (const edge of long) {
    let lane = ends.findIndex((end) => end <= edge[0]);
    if (lane < 0) lane = Math.min(ends.length, most - 1);
    ends[lane] = Math.max(ends[lane] ?? 0, edge[1]);
    edge[2] = lane;
  }
  return ends.length;
}
function graph() {
  const { rows, edges } = graphRows();
  const lanes = lanesOf(edges);
  edges.sort((p, q) => p[0] - q[0]);
  const most = Math.max(1, ...rows.filter((row) => row.kind === "layer").map((row) => row.cycles));
  let rowHeight = 26;
  const space = el("div", { class: "graph" });
  const box = el("div", { class: "scroll graph-box", tabindex: 0, role: "region", "aria-label": "Graph in execution order" }, space);
  const drawing = svg("svg", {});
  space.append(drawing);
  function draw() {
    const width = box.clientWidth, view = Math.min(rows.length * rowHeight, printing ? 60 * rowHeight : 576);
    const from = printing ? 0 : Math.max(0, Math.floor(box.scrollTop / rowHeight) - 2);
    const to = Math.min(rows.length, from + Math.ceil(view / rowHeight) + 5);
    space.style.height = `${rows.length * rowHeight}px`;
    if (printing) space.style.height = `${to * rowHeight}px`;
    const y = (row) => (row - from + 0.5) * rowHeight;
    const dot = 18 + lanes * 9;
    const words = rowHeight >= 16, narrow = width < 640;
    const middle = narrow ? width : Math.max(dot + 220, width * 0.42);
    const bar = narrow ? 60 : 220, digits = 84;
    const parts = [];
    for (const [a, b, lane] of edges) {
      if (a >= to) break;
      if (b < from) continue;
      if (lane == null) { parts.push(svg("path", { class: "edge", d: `M${dot} ${y(a)}V${y(b)}` })); continue; }
      const x = dot - 10 - lane * 9, r = Math.min(8, rowHeight / 2);
      const top = Math.max(y(a), -50), bottom = Math.min(y(b), (to - from) * rowHeight + 50);
      parts.push(svg("path", { class: "edge", d: `M${dot} ${top}H${x + r}Q${x} ${top} ${x} ${top + r}V${bottom - r}Q${x} ${bottom} ${x + r} ${bottom}H${dot}` }));
    }
    for (let i = from; i < to; ++i) {
      const row = rows[i];
      const size = row.kind === "layer" ? Math.min(4, rowHeight / 3) : Math.min(6, rowHeight / 2.4);
      parts.push(svg("circle", { class: `dot ${row.kind}`, cx: dot, cy: y(i), r: size }, svg("title", {}, `${row.name}: ${row.note ?? row.op}`)));
      const length = row.kind === "layer" && row.cycles ? bar * row.cycles / most : 0;
      if (length) parts.push(svg("rect", { class: "row-bar", x: width - digits - length, y: y(i) - Math.min(9, rowHeight * 0.35), width: length, height: Math.min(18, rowHeight * 0.7), rx: 2 }));
      if (!words) continue;
      const letters = Math.floor(((narrow ? width - bar - digits : middle) - dot - 24) / 7.2);
      const name = row.name.length > letters ? `${row.name.slice(0, Math.max(1, letters - 1))}\u2026` : row.name;
      parts.push(svg("text", { x: dot + 14, y: y(i) + 4, "font-weight": row.kind === "layer" ? 400 : 600 }, name));
      if (!narrow) parts.push(svg("text", { x: middle, y: y(i) + 4, class: "quiet" }, (row.note ?? row.op).slice(0, 48)));
      if (row.cycles) parts.push(svg("text", { x: width - 14, y: y(i) + 4, "text-anchor": "end" }, count(row.cycles)));
    }
    drawing.setAttribute("height", (to - from) * rowHeight);
    drawing.style.top = `${from * rowHeight}px`;
    drawing.replaceChildren(...parts);
  }
  let printing = false;
  function zoom(height) {
    const centre = (box.scrollTop + box.clientHeight / 2) / rowHeight;
    rowHeight = Math.max(3, Math.min(44, height));
    space.style.height = `${rows.length * rowHeight}px`;
    box.scrollTop = centre * rowHeight - box.clientHeight / 2;
    draw();
  }
  onScroll(box, draw);
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    zoom(rowHeight * (event.deltaY < 0 ? 1.15 : 1 / 1.15));
  }, { passive: false });
  box.addEventListener("keydown", (event) => {
    if (event.key === "+" || event.key === "=") zoom(rowHeight * 1.25);
    if (event.key === "-") zoom(rowHeight / 1.25);
  });
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  onWidth(box, draw);
  space.style.height = `${rows.length * rowHeight}px`;
  const button = (label, title, action) => el("button", { type: "button", title, "aria-label": title, onclick: action }, label);
  const legend = [["var(--accent)", "NPU"], ["var(--warn)", "host"], ["var(--kind-5)", "border: quantize, dequantize"]];
  return [
    el("div", { class: "tools" }, button("\u2212", "Smaller", () => zoom(rowHeight / 1.4)), button("+", "Larger", () => zoom(rowHeight * 1.4)),
      button("Fit", "Show all rows if they fit", () => zoom((box.clientHeight || 560) / rows.length)), el("output", {}, plural(rows.length, "row"))),
    box,
    el("ul", { class: "legend" }, legend.map(([colour, name]) => el("li", {}, el("i", { style: `background: ${colour}` }), name)))];
}
function hosts() {
  if (!summary.host_reasons.length) return [];
  return [el("h3", {}, "What stays on the host, and why"),
    el("ul", { class: summary.host_reasons.length > 100 ? "hosts many" : "hosts" }, summary.host_reasons.map((host) => el("li", {},
      el("strong", {}, host.op), " ", host.node, " ", el("span", { class: "quiet mono" }, host.source),
      host.code && el("p", {}, el("code", {}, host.code.trim())),
      el("p", {}, host.reason, " ", el("span", { class: "quiet mono" }, host.rule)),
      host.advice && el("p", {}, host.advice))))];
}
if (summary.nodes.length)
  section("graph", "Graph", "In execution order. A line in the margin is a value that is used later; the bar is the layer's share of the cycles.", graph(), hosts());

// -- accuracy

function accuracySection() {
  if (!accuracy) return section("accuracy", "Accuracy", `Not known: ${summary.accuracy_why}.`);
  const parts = [];
  const kind = accuracy.samples_kind === "test" ? "test" : "calibration";
  const outputs = accuracy.sqnr_db ?? [];
  if (outputs.length) {
    const either = (list, i, format) => (list[i] == null ? el("span", { class: "quiet", title: null }, "\u2013") : format(list[i]));
    parts.push(plainTable([{ title: "Output" }, { title: "SQNR", number: true }, { title: "Largest error", number: true }, { title: "Equal", number: true }],
      outputs.map((db, i) => [summary.outputs[i]?.name ?? `out${i}`,
        db == null && accuracy.max_error[i] === 0 ? "equal to float" : either(accuracy.sqnr_db, i, decibels),
        either(accuracy.max_error, i, (error) => error.toPrecision(3)), either(accuracy.equal, i, percent)])));
  }
  if (accuracy.labels) {
    const beside = (value) => (value == null ? "\u2013" : percent(value));
    parts.push(plainTable([{ title: `Of ${plural(accuracy.labels.count, "label")}` }, { title: "This file", number: true }, { title: "Float model", number: true }],
      [["Top-1", percent(accuracy.labels.top1), beside(accuracy.labels.float_top1)], ["Top-5", percent(accuracy.labels.top5), beside(accuracy.labels.float_top5)]]));
  }
  if (accuracy.layers) {
    const figure = (name, title) => ({ title, number: true, width: "6.5rem", value: (row) => row[name], hint: (row) => row[`${name}_why`], cell: (row) => (row[name] == null ? "equal" : row[name].toFixed(1)) });
    parts.push(el("h3", {}, "By layer, beside float"),
      el("p", { class: "quiet" }, "In dB. Own: the error of the layer alone, with exact inputs. All: with the errors of all layers before it. Clipped: values outside the range of the type."),
      table({
        label: "accuracy by layer", rows: accuracy.layers, sort: { column: "Own", down: false },
        search: (row) => `${row.name} ${row.op} ${row.source}`,
        columns: [
          { title: "Value", head: true, value: (row) => row.name, cell: (row) => row.name, hint: (row) => row.name },
          { title: "Operator", extra: true, width: "10rem", value: (row) => row.op, cell: (row) => row.op },
          figure("own_db", "Own"), figure("all_db", "All"),
          { title: "Clipped", number: true, extra: true, width: "7rem", value: (row) => row.clipped, cell: (row) => `${(100 * row.clipped).toFixed(3)} %` },
          { title: "Source", extra: true, width: "30%", value: (row) => row.source, cell: where, hint: (row) => row.source },
        ],
      }));
  }
  const measured = outputs.length ? `Outputs against the float model's, on ${accuracy.samples === accuracy.samples_given ? "" : `${count(accuracy.samples)} of `}${plural(accuracy.samples_given, `${kind} sample`)}. ` : "There is no float model to compare with. ";
  const exact = accuracy.bit_exact == null ? "The file was not run." : `The NPU equals the integer graph bit for bit${accuracy.layers_compared ? `; ${plural(accuracy.layers_compared, "layer")} within what the types allow` : ""}.`;
  section("accuracy", "Accuracy", measured + (summary.regions.length ? exact : ""), parts);
}
accuracySection();

// -- memory, ports, time

const fact = (name, amount, why) => [el("dt", {}, name), el("dd", { class: "amount" }, bytes(amount)), el("dd", { class: "why" }, why)];
section("memory", "Memory", "What to reserve on the device.",
  el("dl", { class: "facts" },
    fact("Planned buffers", summary.memory.planned_bytes, "the runtime's arena: tensors outside the NPU, inputs and outputs"),
    fact("Method allocator", summary.memory.method_bytes, "to load the method, on a 64-bit host; 32-bit devices take less"),
    fact("Temporary allocator", summary.memory.temp_bytes, "scratch of the NPU; regions share it"),
    summary.memory.fast_bytes > 0 && fact("Dedicated SRAM", summary.memory.fast_bytes, "ethosu_fast_scratch of the Ethos-U backend"),
    fact("Program", summary.pte_bytes, "the .pte file, where the device keeps it")),
  summary.board && [
    el("h3", {}, `On ${summary.board.text}`),
    plainTable([{ title: "Memory" }, { title: "Needed", number: true }, { title: "There", number: true }, { title: "Fits" }, { title: "Source" }],
      summary.board.memories.map((memory) => [memory.name, bytes(memory.needed_bytes), memory.bytes == null ? "not known" : bytes(memory.bytes),
        memory.fits == null ? "not known" : memory.fits ? "yes" : "no", memory.sources.join("; ")]))],
  summary.regions.some((region) => region.memories.length) && [
    el("h3", {}, "What the NPU uses"),
    plainTable([{ title: "Region" }, { title: "Memory" }, { title: "Peak", number: true }, { title: "Traffic per inference", number: true }, { title: "Busy cycles", number: true }],
      summary.regions.flatMap((region) => region.memories.map((memory) => [region.name, memory.name, bytes(memory.bytes_used), bytes(memory.traffic_bytes), count(memory.access_cycles)])))],
  summary.regions.filter((region) => region.computed_products).map(({ name, computed_products: products }) =>
    el("figcaption", {}, `${name} computes ${count(products)} products of two computed matrices on the MAC array, with weights that the NPU writes itself.`)),
  summary.regions.filter((region) => region.kept_weights).map(({ name, kept_weights: kept, weights_ahead: ahead, total_cycles }) =>
    el("figcaption", {}, `${name} keeps ${bytes(kept.bytes)} of weights in SRAM for ${count(kept.operations)} operations that would fetch them again: ${count(kept.cycles_before)} \u2192 ${count(ahead ? ahead.cycles_before : total_cycles)} cycles.`)),
  summary.regions.filter((region) => region.weights_ahead).map(({ name, weights_ahead: ahead, total_cycles }) =>
    el("figcaption", {}, `${name} fetches ${bytes(ahead.bytes)} of weights for ${count(ahead.operations)} operations while other layers compute: ${count(ahead.cycles_before)} \u2192 ${count(total_cycles)} cycles.`)),
  sum(summary.regions.map((region) => region.weight_bytes)) > 0 &&
    el("figcaption", {}, `Weights: ${bytes(sum(summary.regions.map((region) => region.weight_bytes)))}, encoded in ${bytes(sum(summary.regions.map((region) => region.encoded_weight_bytes)))}.`));

if (summary.comparison) {
  const change = (line) => line.before == null || line.now == null || line.before === line.now ? "\u2013"
    : line.before === 0 ? "new" : `${line.now > line.before ? "+" : "\u2212"}${(Math.abs(line.now / line.before - 1) * 100).toFixed(1)} %`;
  const figure = (value) => value == null ? "not known" : count(value);
  section("comparison", "Comparison", `This build beside ${file(summary.comparison.path)}.`,
    plainTable([{ title: "Figure" }, { title: "Before", number: true }, { title: "Now", number: true }, { title: "Change", number: true }],
      summary.comparison.lines.map((line) => [line.name.replaceAll("_", " "), figure(line.before), figure(line.now), change(line)])));
}

const port = (direction) => (p) => [direction, el("span", { class: "mono" }, p.name), `${p.dtype}[${p.shape.join(", ")}]`,
  p.scale == null ? "\u2013" : String(Number(p.scale.toPrecision(8))), p.zero_point == null ? "\u2013" : count(p.zero_point)];
section("ports", "Inputs and outputs", "Scale and zero point are those of the codes on the NPU's side.",
  plainTable([{ title: "Port" }, { title: "Name" }, { title: "Type" }, { title: "Scale", number: true }, { title: "Zero point", number: true }],
    [...summary.inputs.map(port("input")), ...summary.outputs.map(port("output"))]));

const stages = Object.entries(summary.milliseconds).filter(([stage, ms]) => typeof ms === "number" && stage !== "total");
section("time", "Compile time", summary.milliseconds.total == null ? null : `${count(summary.milliseconds.total)} ms on the machine that compiled it.`,
  bars(stages.map(([stage, ms]) => ({ label: stage, size: ms, value: ms < 0.1 ? "under 0.1 ms" : milliseconds(ms) }))));

text("footer", `swoop ${summary.swoop}. Cycles and times are regor's estimates; nothing was measured on silicon. From ${summary.model}${summary.output ? ` to ${summary.output}` : ""}.`);
document.documentElement.dataset.ready = "true";
})();
