"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const PAPER_WIDTH = 690; // px that A4 and Letter both have between their margins
  let printing = false;
  const figures = new Map(); // element id → { element, data, layout, group, choices, choice, drawn }

  // Plotly wants colours, the figures name them: "@ink" is --ink of the stylesheet, which knows light, dark and print.
  function coloured(value, style, key) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, style, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style, name)]));
    }
    const named = typeof value === "string" && value.startsWith("@") && /color$/.test(key || "");
    return named ? style.getPropertyValue(`--${value.slice(1)}`).trim() : value;
  }

  function read(element) {
    const held = JSON.parse(byId(`${element.id}-data`).textContent);
    for (const trace of held.data) {
      for (const key of ["x", "hovertext"]) {
        if (trace[key] && !Array.isArray(trace[key])) trace[key] = held.shared[trace[key].shared];
      }
    }
    return { element, ...held, choice: held.chosen, drawn: false };
  }

  function patched(layout, patch) {
    const result = structuredClone(layout);
    for (const [path, value] of Object.entries(patch || {})) {
      const keys = path.replace(/\[(\d+)\]/g, ".$1").split(".");
      const last = keys.pop();
      let place = result;
      for (const key of keys) place = place[key] ??= {};
      place[last] = value;
    }
    return result;
  }

  function draw(figure) {
    const style = getComputedStyle(root);
    const seen = figure.data.filter((trace) => trace.meta === undefined || trace.meta === figure.choice);
    const data = seen.map((trace) => coloured(trace, style));
    const layout = coloured(patched(figure.layout, figure.choices[figure.choice]), style);
    if (printing) layout.width = PAPER_WIDTH;
    const first = !figure.drawn;
    figure.drawn = true;
    const done = Plotly.react(figure.element, data, layout, config);
    if (first) figure.element.on("plotly_click", (event) => openFrom(event));
    return done;
  }

  function openFrom(event) {
    const place = event.points[0].customdata;
    if (Number.isInteger(place) && place >= 0) open(place);
  }

  function redraw() {
    for (const figure of figures.values()) if (figure.drawn) draw(figure);
  }

  // The page is painted first; then plotly.js is woken, then figures in view are drawn, then the others while nothing else is to do.
  function wake() {
    if (window.Plotly) return;
    performance.mark("waking");
    const script = document.createElement("script");
    script.textContent = byId("plotly-source").textContent;
    document.head.append(script);
    performance.mark("plotly-ready");
  }

  const idle = window.requestIdleCallback || ((call) => setTimeout(call, 1));

  function drawRest() {
    const next = [...figures.values()].find((figure) => !figure.drawn);
    if (!next) {
      performance.mark("all-drawn");
      root.dataset.state = "drawn";
      return;
    }
    draw(next);
    idle(drawRest, { timeout: 200 });
  }

  function begin() {
    wake();
    for (const element of document.querySelectorAll("figure .chart")) figures.set(element.id, read(element));
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const figure = figures.get(entry.target.id);
        if (entry.isIntersecting && !figure.drawn) draw(figure);
      }
    }, { rootMargin: "200px" });
    for (const figure of figures.values()) watch.observe(figure.element);
    idle(drawRest, { timeout: 200 });
  }

  // Choices
  document.addEventListener("change", (event) => {
    const { group } = event.target.dataset;
    if (group) {
      for (const figure of figures.values()) {
        if (figure.group !== group) continue;
        figure.choice = event.target.value;
        if (figure.drawn) draw(figure);
      }
    }
    if (event.target.dataset.filter) filter(byId(event.target.dataset.filter));
  });

  // Tables
  function filter(table) {
    const wanted = [...document.querySelectorAll(`select[data-filter="${table.id}"]`)].filter((select) => select.value);
    let shown = 0;
    for (const row of table.tBodies[0].rows) {
      row.hidden = !wanted.every((select) => {
        const text = row.cells[select.dataset.column].textContent;
        return text === select.value || text.endsWith(` ${select.value}`) && select.dataset.column === "3";
      });
      shown += row.hidden ? 0 : 1;
    }
    byId("changes-count").textContent = `${shown} change${shown === 1 ? "" : "s"}`;
  }

  const keyOf = (cell) => cell.dataset.key ?? (cell.textContent === "–" ? null : cell.textContent);

  function sort(button) {
    const head = button.closest("th");
    const table = head.closest("table");
    const direction = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of head.parentElement.cells) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", direction === 1 ? "ascending" : "descending");
    const column = head.cellIndex;
    const rows = [...table.tBodies[0].rows].map((row) => [keyOf(row.cells[column]), row]);
    const numeric = rows.every(([key]) => key === null || key === "" || key === "inf" || !Number.isNaN(Number(key)));
    const value = (key) => (key === "inf" ? Infinity : Number(key));
    rows.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return direction * (numeric ? value(a) - value(b) || 0 : a.localeCompare(b, undefined, { numeric: true }));
    });
    table.tBodies[0].append(...rows.map(([, row]) => row));
  }

  document.addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (!button) return;
    if (button.classList.contains("sort")) sort(button);
    if (button.dataset.change) open(Number(button.dataset.change));
    if (button.classList.contains("close")) byId("details").close();
    if (button.classList.contains("show-more")) {
      const folded = button.parentElement.classList.toggle("folded");
      button.setAttribute("aria-expanded", String(!folded));
      button.dataset.more ??= button.textContent;
      button.textContent = folded ? button.dataset.more : "Show fewer";
    }
  });

  // Details of one change
  let detailsData = null;

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  function open(place) {
    detailsData ??= JSON.parse(byId("details-data").textContent);
    const change = detailsData.changes[place];
    byId("details-title").textContent = `${change.configuration}: ${change.title}`;
    const badge = element("span", `${change.sign} ${change.verdict}`);
    badge.className = `badge ${change.verdict}`;
    byId("details-verdict").replaceChildren(badge);
    byId("details-sentence").textContent = change.sentence;
    byId("details-facts").replaceChildren(...change.facts.flatMap((fact, i) => {
      if (!fact) return [];
      const row = document.createElement("div");
      row.append(element("dt", detailsData.labels[i]), element("dd", fact));
      return [row];
    }));
    const sides = [["reference", change.reference, 0], ["here", change.observed, 1]];
    byId("details-runs").replaceChildren(...sides.flatMap(([side, rhos, i]) => rhos.map((rho, run) => {
      const row = document.createElement("tr");
      const head = element("th", detailsData.runs[change.runs[i]][run] ?? "");
      head.scope = "row";
      row.append(head, element("td", side), element("td", rho === null ? "–" : rho.toFixed(3).replace("-", "−")));
      return row;
    })));
    byId("details").showModal();
    wake();
    drawDetails(change);
  }

  function drawDetails(change) {
    const [effect, low, high, tolerance] = change.interval;
    const runs = (i) => change.runs[i];
    const safe = (name) => String(name).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
    const dots = (rhos, i, row, colour) => ({
      type: "scatter", mode: "markers", x: rhos, y: rhos.map((_, k) => row + 0.22 * ((k % 5) / 2 - 1)),
      marker: { color: colour, size: 9, opacity: 0.75 },
      hovertext: rhos.map((_, k) => safe(detailsData.runs[runs(i)][k] ?? "")), hovertemplate: "ρ = %{x:.3f} in %{hovertext}<extra></extra>",
    });
    const mean = (value, row) => ({ type: "line", x0: value, x1: value, y0: row - 0.38, y1: row + 0.38, line: { color: "@ink", width: 2 } });
    const axis = { gridcolor: "@grid", linecolor: "@axis", zeroline: false, automargin: true };
    // Never closer than the tolerance is wide, or noise looks like a change.
    const rhos = [...change.reference, ...change.observed].filter((rho) => rho !== null);
    const middle = (Math.min(...rhos) + Math.max(...rhos)) / 2;
    const reach = Math.max(1.1 * (Math.max(...rhos) - middle), 1.5 * tolerance);
    const title = (text) => ({ text, standoff: 6, font: { size: 13 } });
    const span = 1.15 * Math.max(Math.abs(low), Math.abs(high), 1.5 * tolerance);
    const data = [
      dots(change.reference, 0, 2, "@series-1"), dots(change.observed, 1, 1, `@${change.verdict}`),
      { type: "scatter", mode: "markers", x: [effect], y: [0], xaxis: "x2", yaxis: "y2", marker: { color: `@${change.verdict}`, size: 10 },
        error_x: { type: "data", symmetric: false, array: [high - effect], arrayminus: [effect - low], color: `@${change.verdict}`, thickness: 2, width: 5 },
        hovertemplate: "change %{x:+.3f}<extra></extra>" },
    ];
    const layout = {
      height: 330, showlegend: false, margin: { l: 90, r: 20, t: 10, b: 50 }, font: { color: "@ink", size: 13 },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", hoverlabel: { bgcolor: "@card", font: { color: "@ink" } },
      xaxis: { ...axis, title: title("ρ of each run; upright lines: means"), anchor: "y", range: [middle - reach, middle + reach] },
      yaxis: { ...axis, domain: [0.5, 1], tickvals: [2, 1], ticktext: ["reference", "here"], range: [0.4, 2.6], showgrid: false },
      xaxis2: { ...axis, title: title("change of ρ; shaded: tolerance"), anchor: "y2", range: [-span, span], zeroline: true, zerolinecolor: "@axis" },
      yaxis2: { ...axis, domain: [0, 0.2], tickvals: [0], ticktext: ["change"], range: [-1, 1], showgrid: false, anchor: "x2" },
      shapes: [mean(change.means[0], 2), mean(change.means[1], 1),
        { type: "rect", xref: "x2", yref: "y2", x0: -tolerance, x1: tolerance, y0: -1, y1: 1, fillcolor: "@band", line: { width: 0 }, layer: "below" }],
    };
    const style = getComputedStyle(root);
    Plotly.react(byId("details-chart"), coloured(data, style), coloured(layout, style), config);
  }

  // Colours follow the system's setting, and paper is always light.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  matchMedia("print").addEventListener("change", redraw);
  addEventListener("beforeprint", () => {
    for (const folded of document.querySelectorAll("details:not([open])")) folded.open = true;
    printing = true;
    if (window.Plotly) for (const figure of figures.values()) draw(figure);
  });
  addEventListener("afterprint", () => {
    printing = false;
    redraw();
  });

  // Two frames later the browser has painted what needs no script.
  requestAnimationFrame(() => setTimeout(begin, 0));
})();
