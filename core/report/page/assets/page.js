"use strict";
(() => {
  let data = JSON.parse(document.getElementById("data").textContent);
  const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const color = i => css("--c" + i % 8);
  const dashes = [[], [8, 4], [2, 3], [10, 3, 2, 3], [5, 5], [12, 4], [3, 6], [1, 4]];
  const letters = {restart: "R", resume: "C", membership: "M", replaced: "P", failure: "F", "early stop": "E"};
  const words = {restart: "restart of all ranks", resume: "continued from a checkpoint", membership: "ranks left or joined", replaced: "plugin replaced", failure: "failure", "early stop": "early stop"};
  const state = {x: "step", smoothing: 0, log: false, marks: true, hidden: new Set(), range: null};
  const plots = new Map(); // of charts over steps, by id
  const traces = [];
  let syncing = false;

  const text = v => v == null ? "–" : Math.abs(v) >= 1e5 || v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(3) : String(+v.toPrecision(5));
  const clock = s => s < 60 ? text(s) + " s" : s < 3600 ? Math.floor(s / 60) + " min " + Math.floor(s % 60) + " s" : Math.floor(s / 3600) + " h " + Math.floor(s % 3600 / 60) + " min";
  const axisX = () => state.x === "time" ? "time since the start (s)" : "step";

  // An exponential moving average without the bias of its beginning.
  const smooth = values => {
    if (!state.smoothing) return values;
    let sum = 0, weight = 0;
    return values.map(v => {
      if (v == null) return null;
      sum = sum * state.smoothing + v * (1 - state.smoothing);
      weight = weight * state.smoothing + 1 - state.smoothing;
      return sum / weight;
    });
  };

  // Columns sorted by x without repeated values, as uPlot needs them.
  const sorted = columns => {
    const order = columns[0].map((_, i) => i).sort((a, b) => columns[0][a] - columns[0][b]);
    const kept = order.filter((o, i) => i === order.length - 1 || columns[0][o] !== columns[0][order[i + 1]]);
    return columns.map(c => kept.map(i => c[i]));
  };

  // The series of a chart: for every run its curve, perhaps with a band, and its evaluations.
  const content = chart => {
    const tables = [], series = [{}], bands = [];
    data.runs.forEach((run, i) => {
      const s = run.series[chart.id], show = !state.hidden.has(i);
      if (s) {
        const columns = [run[state.x], smooth(s.mean)];
        series.push({label: run.id, stroke: () => color(i), width: 2, dash: dashes[i % 8], show, points: {show: run.step.length < 3}});
        if (s.least) {
          columns.push(s.greatest, s.least);
          for (const end of ["greatest", "least"]) series.push({label: run.id + " " + end, stroke: "transparent", width: 0, show, points: {show: false}});
          bands.push({series: [series.length - 2, series.length - 1], fill: () => color(i) + "33"});
        }
        tables.push(sorted(columns));
      }
      const evaluated = chart.id === "loss" ? run.evals.loss : chart.id === "accuracy" ? run.evals.accuracy : [];
      if (evaluated.some(v => v != null)) {
        series.push({label: run.id + " evaluation", stroke: () => color(i), width: 0, paths: () => null, show, points: {show: true, size: 8, width: 2, fill: () => css("--bg")}});
        tables.push(sorted([run.evals[state.x], evaluated]));
      }
    });
    return {series, bands, values: tables.length ? tables.length > 1 ? uPlot.join(tables) : tables[0] : [[]]};
  };

  const drawMarks = u => {
    if (!state.marks) return;
    const {ctx, bbox} = u;
    ctx.save();
    ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
    ctx.textAlign = "center";
    data.runs.forEach((run, i) => {
      if (state.hidden.has(i)) return;
      for (const m of run.marks) {
        const letter = letters[m.kind], x = u.valToPos(m[state.x], "x", true);
        if (!letter || x < bbox.left || x > bbox.left + bbox.width) continue;
        ctx.strokeStyle = ctx.fillStyle = m.kind === "failure" ? css("--bad") : color(i);
        ctx.setLineDash([3, 3]);
        ctx.beginPath(); ctx.moveTo(x, bbox.top + 14 * devicePixelRatio); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
        ctx.fillText(letter, x, bbox.top + 11 * devicePixelRatio);
      }
    });
    ctx.restore();
  };

  const tick = v => v == null ? "" : v !== 0 && (Math.abs(v) < 1e-3 || Math.abs(v) >= 1e6) ? (+v.toPrecision(4)).toExponential() : (+v.toPrecision(6)).toLocaleString("en-US", {maximumFractionDigits: 6});
  const whole = [...Array(15).keys()].flatMap(k => [1, 2, 5].map(n => n * 10 ** k)); // between ticks: there are no half steps
  const axes = (unit, more) => [
    {stroke: () => css("--fg"), grid: {stroke: () => css("--line")}, ticks: {stroke: () => css("--line")}, label: more.x, labelSize: 20, size: 36, ...(more.x === "step" ? {incrs: whole} : {})},
    Object.assign({values: (u, splits) => splits.map(tick), stroke: () => css("--fg"), grid: {stroke: () => css("--line")}, ticks: {stroke: () => css("--line")}, label: unit, labelSize: 20, size: (u, labels) => Math.max(62, ...(labels || []).map(l => 14 + 7 * String(l).length))}, more.y),
  ];

  const width = el => Math.max(240, el.clientWidth);

  const readout = (figure, u, chart) => {
    const i = u.cursor.idx, out = figure.querySelector(".readout");
    if (i == null) { out.value = ""; return; }
    const x = u.data[0][i], near = [];
    u.series.forEach((s, k) => {
      if (k === 0 || !s.show || /(least|greatest)$/.test(s.label) && s.stroke() === "transparent") return;
      const v = u.data[k][i];
      if (v != null) near.push(s.label + " " + text(v) + (chart.unit ? " " + chart.unit : ""));
    });
    out.value = (state.x === "time" ? clock(x) : "step " + x) + (near.length ? ": " + near.join(", ") : "");
  };

  const follow = (u, key) => {
    if (key !== "x" || syncing) return;
    syncing = true;
    const {min, max} = u.scales.x;
    state.range = [min, max];
    for (const p of plots.values()) if (p !== u) p.setScale("x", {min, max});
    syncing = false;
  };

  const draw = chart => {
    const figure = document.querySelector(`figure[data-chart="${chart.id}"]`);
    if (!figure) return;
    const el = figure.querySelector(".plot"), old = plots.get(chart.id), c = content(chart);
    if (old) old.destroy();
    const log = state.log && chart.log && c.values.slice(1).every(col => col.every(v => v == null || v > 0));
    const u = new uPlot({
      width: width(el), height: 300, legend: {show: false}, series: c.series, bands: c.bands,
      scales: {x: {time: false}, y: log ? {distr: 3} : {}},
      axes: axes(chart.title + (chart.unit ? " (" + chart.unit + ")" : ""), {x: axisX(), y: {}}),
      cursor: {drag: {x: true, y: false}},
      hooks: {draw: [drawMarks], setCursor: [u => readout(figure, u, chart)], setScale: [follow]},
    }, c.values, el);
    plots.set(chart.id, u);
    keys(el, u, () => showAll());
  };

  const showAll = () => {
    state.range = null;
    syncing = true;
    for (const u of plots.values()) u.setScale("x", extent(u));
    syncing = false;
  };
  const extent = u => u.data[0].length ? {min: u.data[0][0], max: u.data[0][u.data[0].length - 1]} : {min: 0, max: 1};

  // Every chart is used with the keyboard like this.
  const keys = (el, u, reset) => {
    el.onkeydown = e => {
      const {min, max} = u.scales.x, span = max - min, left = u.cursor.left >= 0 ? u.cursor.left : u.over.clientWidth / 2;
      const at = u.posToVal(left, "x"), zoom = f => u.setScale("x", {min: at - (at - min) * f, max: at + (max - at) * f});
      const move = by => {
        if (e.ctrlKey) { u.setScale("x", {min: min + by * span / 50, max: max + by * span / 50}); return; }
        if (u.pixels) { u.setCursor({left: Math.max(0, Math.min(u.over.clientWidth, left + 4 * by)), top: u.over.clientHeight / 2}); return; }
        let i = (u.cursor.idx ?? u.valToIdx(at)) + by;
        i = Math.max(0, Math.min(u.data[0].length - 1, i));
        u.setCursor({left: u.valToPos(u.data[0][i], "x"), top: u.over.clientHeight / 2});
      };
      const act = {ArrowLeft: () => move(e.shiftKey ? -10 : -1), ArrowRight: () => move(e.shiftKey ? 10 : 1), "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), "0": reset, Escape: reset}[e.key];
      if (!act) return;
      e.preventDefault();
      act();
    };
  };

  const drawTimeline = (t, run) => {
    const figure = document.querySelector(`figure[data-timeline="${run}"]`);
    if (!figure || !t.slices.length) return;
    const el = figure.querySelector(".plot"), n = t.slices.length / 6;
    if (traces[run]) traces[run].destroy();
    let last = 1;
    for (let i = 0; i < n; i++) last = Math.max(last, t.slices[6 * i + 2] + t.slices[6 * i + 3]);
    const xs = Array.from({length: 401}, (_, i) => i * last / 400 / 1000), rows = t.rows.length, high = 22;
    const paint = u => {
      const {ctx, bbox} = u, {min, max} = u.scales.x;
      ctx.save();
      ctx.textAlign = "left";
      ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
      for (let i = 0; i < n; i++) {
        const [row, name, start, length] = t.slices.slice(6 * i, 6 * i + 4);
        if (start / 1000 > max || (start + length) / 1000 < min) continue;
        const x = u.valToPos(start / 1000, "x", true), w = Math.max(1, u.valToPos((start + length) / 1000, "x", true) - x), shown = Math.max(x, bbox.left), h = bbox.height / rows;
        ctx.fillStyle = color(name);
        ctx.fillRect(x, bbox.top + row * h + 0.12 * h, w, 0.76 * h);
        if (w > 60 * devicePixelRatio) {
          ctx.fillStyle = css("--bg");
          ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
          ctx.fillText(t.names[name], shown + 4, bbox.top + (row + 0.65) * h, w - 8);
        }
      }
      ctx.restore();
    };
    const tell = u => {
      const out = figure.querySelector(".readout");
      if (!(u.cursor.left >= 0)) { out.value = ""; return; }
      const at = u.posToVal(u.cursor.left, "x") * 1000, row = Math.floor(u.cursor.top / u.over.clientHeight * rows), found = [];
      for (let i = 0; i < n; i++) {
        const [r, name, start, length, step, bytes] = t.slices.slice(6 * i, 6 * i + 6);
        if (start <= at && at <= start + length && (r === row || u.keyed)) found.push(`${t.rows[r]}: ${t.names[name]}, step ${step}, ${text(length / 1000)} ms${bytes ? ", " + bytes + " bytes" : ""}`);
      }
      out.value = text(at / 1000) + " ms" + (found.length ? " – " + found.join("; ") : "");
    };
    const u = new uPlot({
      width: width(el), height: rows * high + 60, legend: {show: false}, series: [{}, {show: true, paths: () => null, points: {show: false}}],
      scales: {x: {time: false}, y: {range: [0, rows]}},
      axes: axes("", {x: "time (ms)", y: {size: 156, label: undefined, labelSize: 0, grid: {show: false}, splits: () => t.rows.map((_, i) => rows - i - 0.5), values: () => t.rows}}),
      cursor: {drag: {x: true, y: false}, points: {show: false}},
      hooks: {draw: [paint], setCursor: [tell]},
    }, [xs, xs.map(() => null)], el);
    traces[run] = u;
    u.pixels = true;
    keys(el, u, () => u.setScale("x", {min: 0, max: last / 1000}));
    // The first and the last steps are far apart: a few of them are shown at first.
    const of = k => t.slices[6 * k + 4], few = 5;
    let earliest = Infinity, latest = 0;
    for (let i = 0; i < n; i++) if (of(i) > 0) { earliest = Math.min(earliest, of(i)); latest = Math.max(latest, of(i)); }
    const range = (from, to) => {
      let a = Infinity, b = 0;
      for (let i = 0; i < n; i++) if (of(i) >= from && of(i) <= to) { a = Math.min(a, t.slices[6 * i + 2]); b = Math.max(b, t.slices[6 * i + 2] + t.slices[6 * i + 3]); }
      if (a < b) u.setScale("x", {min: a / 1000, max: b / 1000});
    };
    const views = {first: () => range(earliest + 1, earliest + few), last: () => range(latest - few + 1, latest), all: () => u.setScale("x", {min: 0, max: last / 1000})};
    figure.querySelectorAll("[data-view]").forEach(b => { b.onclick = views[b.dataset.view]; });
    (latest - earliest > few ? views.first : views.all)();
    el.addEventListener("keydown", () => { u.keyed = true; tell(u); }, true);
    el.addEventListener("mousemove", () => { u.keyed = false; }, true);
  };

  const redraw = () => {
    data.charts.forEach(draw);
    if (state.range) {
      syncing = true;
      for (const u of plots.values()) u.setScale("x", {min: state.range[0], max: state.range[1]});
      syncing = false;
    }
  };
  const redrawAll = () => {
    redraw();
    data.traces.forEach(drawTimeline);
    document.querySelectorAll("[data-swatch]").forEach(s => {
      s.style.borderTopColor = color(+s.dataset.swatch);
      s.style.borderTopStyle = ["solid", "dashed", "dotted", "double"][s.dataset.swatch % 4];
    });
    const kinds = [...new Set(data.runs.flatMap(r => r.marks.map(m => m.kind)))].filter(k => letters[k]);
    const help = document.getElementById("markhelp");
    if (help) help.textContent = kinds.length ? "Marks: " + kinds.map(k => letters[k] + " " + words[k]).join(", ") + "." : "";
  };

  document.getElementById("controls").addEventListener("input", e => {
    const t = e.target;
    if (t.name === "x") { state.x = t.value; state.range = null; }
    if (t.id === "smoothing") state.smoothing = +t.value;
    if (t.id === "log") state.log = t.checked;
    if (t.id === "marks") state.marks = t.checked;
    redraw();
  });
  document.getElementById("controls").addEventListener("submit", e => e.preventDefault());
  document.getElementById("reset").addEventListener("click", showAll);
  document.getElementById("runs").addEventListener("change", e => {
    if (e.target.dataset.run === undefined) return;
    state.hidden[e.target.checked ? "delete" : "add"](+e.target.dataset.run);
    redraw();
  });
  let resizing;
  addEventListener("resize", () => { clearTimeout(resizing); resizing = setTimeout(redrawAll, 100); });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawAll);
  matchMedia("print").addEventListener("change", redrawAll);
  redrawAll();

  // New data leaves out what was there the last time.
  const merge = (old, next) => {
    next.runs.forEach((run, i) => {
      const was = old.runs[i], put = (from, a, b) => from ? a.slice(0, from).concat(b) : b, n = run.from;
      for (const [id, s] of Object.entries(run.series)) {
        const before = was.series[id] || {mean: Array(n).fill(null)};
        if (n && (s.least || before.least)) for (const end of ["least", "greatest"]) s[end] = put(n, before[end] || before.mean, s[end] || s.mean);
        s.mean = put(n, before.mean, s.mean);
      }
      for (const key of ["step", "time"]) run[key] = put(n, was[key], run[key]);
      for (const key of ["step", "time", "loss", "accuracy"]) run.evals[key] = put(run.evals.from, was.evals[key], run.evals[key]);
    });
    next.traces = next.traces.map((t, i) => t || old.traces[i]);
    return next;
  };

  // For pages that follow their runs: new data, and new text for the parts of the page.
  window.trainctlPage = {
    plots, state,
    have: () => JSON.stringify(data.have),
    drawn: run => data.runs[run],
    update(next, html) {
      const known = data.charts.map(c => c.id).join();
      data = merge(data, next);
      if (known !== data.charts.map(c => c.id).join()) return false;
      const parts = new DOMParser().parseFromString(html, "text/html");
      document.querySelectorAll("[data-part], [data-state]").forEach(el => {
        const fresh = el.dataset.state !== undefined ? parts.querySelector(`[data-state="${el.dataset.state}"]`)
          : el.id ? parts.getElementById(el.id) : parts.querySelector(`[data-part="${el.dataset.part}"]`);
        if (!html || !fresh || el.contains(document.activeElement)) return;
        const open = [...el.querySelectorAll("details")].map(d => d.open);
        el.replaceChildren(...fresh.childNodes);
        el.className = fresh.className;
        el.querySelectorAll("details").forEach((d, i) => { if (open[i] !== undefined) d.open = open[i]; });
      });
      redrawAll();
      return true;
    },
  };
})();
