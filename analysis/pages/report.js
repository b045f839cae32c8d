"use strict";
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const config = { responsive: true, displaylogo: false, displayModeBar: false };
  const EAGER = 20; // figures that are drawn before anybody scrolls to them
  const PAPER_WIDTH = 690; // px that A4 and Letter both have between their margins
  const CLOSED = "details:not([open])"; // its content has no width yet
  let printing = false;
  const figures = new Map(); // element id → { element, data, layout, group, choices, choice, drawn }

  // Figures name their colours: "@ink" is --ink of the stylesheet, which defines it for light mode, dark mode and print.
  function coloured(value, style, key) {
    if (Array.isArray(value)) return value.map((item) => coloured(item, style, key));
    if (value !== null && typeof value === "object") {
      return Object.fromEntries(Object.entries(value).map(([name, item]) => [name, coloured(item, style, name)]));
    }
    const named = typeof value === "string" && value.startsWith("@") && /color$/.test(key || "");
    return named ? style.getPropertyValue(`--${value.slice(1)}`).trim() : value;
  }

  async function read(element) {
    const held = await unpackedJson(`${element.id}-data`);
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

  // Order: paint the page, unpack plotly.js, draw the figures in view, then draw the first other figures when idle.
  let awake = null;
  function wake() {
    awake ??= unpacked(byId("plotly-source").textContent).then((source) => {
      const script = document.createElement("script");
      script.textContent = source;
      document.head.append(script);
      performance.mark("plotly-ready");
    });
    return awake;
  }

  const unpackedJson = async (id) => JSON.parse(await unpacked(byId(id).textContent));

  function unpacked(text) {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  }

  const idle = window.requestIdleCallback || ((call) => setTimeout(call, 1));

  function drawRest() {
    const open = [...figures.values()].filter((figure) => !figure.element.closest(CLOSED));
    const next = open.filter((figure) => !figure.drawn)[0];
    if (!next || open.indexOf(next) >= EAGER) {
      performance.mark("all-drawn");
      root.dataset.state = "drawn";
      return;
    }
    draw(next);
    idle(drawRest, { timeout: 200 });
  }

  async function begin() {
    offerSaving();
    follow();
    const charts = document.querySelectorAll("figure .chart");
    if (charts.length) {
      try {
        const held = Promise.all([...charts].map(read));
        await wake();
        for (const figure of await held) figures.set(figure.element.id, figure);
      } catch (error) {
        for (const chart of charts) chart.textContent = `This browser cannot draw the figures (${error}). Their numbers are in the tables.`;
        root.dataset.state = "failed";
        return;
      }
    }
    const watch = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        const figure = figures.get(entry.target.id);
        if (entry.isIntersecting && !figure.drawn && !figure.element.closest(CLOSED)) draw(figure);
      }
    }, { rootMargin: "200px" });
    for (const figure of figures.values()) watch.observe(figure.element);
    idle(drawRest, { timeout: 200 });
  }

  // Folded parts: a link into one opens it, and its figures are drawn once it is open.
  function reveal(target) {
    for (let place = target; place; place = place.parentElement) {
      for (const folded of place.matches("section") ? place.querySelectorAll(":scope > details") : []) folded.open = true;
      if (place.matches("details")) place.open = true;
    }
  }

  function follow() {
    const target = location.hash.length > 1 && byId(decodeURIComponent(location.hash.slice(1)));
    if (!target || !target.querySelector(CLOSED) && !target.closest(CLOSED)) return;
    reveal(target);
    target.scrollIntoView();
  }

  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest('a[href^="#"]');
    const target = link && byId(decodeURIComponent(link.getAttribute("href").slice(1)));
    if (target) reveal(target);
  });
  document.addEventListener("toggle", (event) => {
    if (!event.target.open || !window.Plotly || !event.target.querySelector("figure .chart")) return;
    root.dataset.state = "loading";
    idle(drawRest, { timeout: 200 });
  }, true);

  // Mark the section in view in the navigation.
  const places = [...document.querySelectorAll('nav a[href^="#"]')].map((link) => ({ link, section: byId(link.getAttribute("href").slice(1)) })).filter(({ section }) => section);
  let marked = null;
  function mark() {
    const below = document.querySelector("nav").getBoundingClientRect().bottom + innerHeight / 4;
    const atEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    const reached = places.filter(({ section }) => section.getBoundingClientRect().top <= (atEnd ? innerHeight : below));
    const now = reached.at(-1)?.link ?? null;
    if (now === marked) return;
    marked?.removeAttribute("aria-current");
    now?.setAttribute("aria-current", "location");
    marked = now;
    const list = now?.closest("ul");
    if (list) list.scrollLeft = now.offsetLeft - (list.clientWidth - now.offsetWidth) / 2;
  }
  if (places.length) {
    let waiting = false;
    addEventListener("scroll", () => {
      if (waiting) return;
      waiting = true;
      requestAnimationFrame(() => {
        waiting = false;
        mark();
      });
    }, { passive: true });
    mark();
  }

  // Saving: figures as SVG and PNG, tables as CSV, and the packed JSON file.
  function save(blob, name) {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  }

  const fileName = (part) => `${document.title.split(":")[0]} ${part}`.replace(/[^\p{L}\p{N}.]+/gu, "-").replace(/^-|-$/g, "").slice(0, 120);

  function saver(text, label, action) {
    const button = element("button", text);
    button.type = "button";
    button.className = "save";
    button.setAttribute("aria-label", label);
    button.addEventListener("click", action);
    return button;
  }

  async function saveFigure(chart, format) {
    const figure = figures.get(chart.id);
    if (!figure.drawn) await draw(figure);
    const ground = getComputedStyle(root).getPropertyValue("--card").trim();
    const layout = { ...chart.layout, paper_bgcolor: ground, width: chart.clientWidth, height: chart.clientHeight };
    const address = await Plotly.toImage({ data: chart.data, layout, config }, { format, width: layout.width, height: layout.height, scale: format === "png" ? 2 : 1 });
    const content = decodeURIComponent(address.slice(address.indexOf(",") + 1));
    const bytes = format === "svg" ? content : Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    save(new Blob([bytes], { type: format === "svg" ? "image/svg+xml" : "image/png" }), `${fileName(chart.id)}.${format}`);
  }

  async function saveTable(table) {
    if (table.id === "changes-table") await showRest();
    const quoted = (text) => (/[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text);
    const value = (cell) => (cell.dataset.key ?? cell.innerText.trim() ?? "");
    const text = (cell) => cell.innerText.replace(/\s+/g, " ").trim();
    const lines = [[...table.tHead.rows[0].cells].map(text)];
    for (const row of table.tBodies[0].rows) if (!row.hidden) lines.push([...row.cells].map(value));
    const written = lines.map((line) => line.map(quoted).join(",")).join("\r\n");
    save(new Blob(["\ufeff", written, "\r\n"], { type: "text/csv" }), `${fileName(table.id || table.caption?.textContent.slice(0, 60) || "table")}.csv`);
  }

  function offerSaving() {
    for (const chart of document.querySelectorAll("figure .chart")) {
      const place = document.createElement("p");
      place.className = "saves";
      place.append("Save as ", ...["svg", "png"].map((format) => saver(format.toUpperCase(), `Save the figure ${chart.id} as ${format.toUpperCase()}`, () => saveFigure(chart, format))));
      chart.after(place);
    }
    for (const table of document.querySelectorAll("main .scroll > table")) {
      const place = document.createElement("p");
      place.className = "saves";
      const label = `Save the table as CSV: ${table.caption?.textContent ?? ""}`;
      place.append("Save as ", saver("CSV", label, () => saveTable(table)));
      const frame = table.parentElement;
      (frame.parentElement.matches(".tall") ? frame.parentElement : frame).after(place);
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("button[data-packed]");
    if (button) save(new Blob([await unpacked(byId(button.dataset.packed).textContent)], { type: "application/json" }), button.dataset.name);
  });

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
    if (event.target.dataset.filter) showRest().then(() => filter(byId(event.target.dataset.filter)));
  });

  // Tables
  let rest = null;
  function showRest() {
    const button = document.querySelector("button[data-rest]");
    rest ??= button ? unpackedJson(button.dataset.rest).then((rows) => {
      const table = byId("changes-table");
      table.tBodies[0].insertAdjacentHTML("beforeend", rows);
      button.remove();
      for (const control of table.querySelectorAll("tbody button[data-change]")) if (control !== grids.find((grid) => grid.table === table)?.current) control.tabIndex = -1;
      filter(table);
    }) : Promise.resolve();
    return rest;
  }

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
    grids.forEach(settle);
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
    if (button.classList.contains("sort")) (button.closest("#changes-table") ? showRest() : Promise.resolve()).then(() => sort(button));
    if (button.dataset.change) open(Number(button.dataset.change));
    if (button.dataset.rest) return void showRest();
    if (button.classList.contains("close")) byId("details").close();
    if (button.classList.contains("show-more")) {
      const folded = button.parentElement.classList.toggle("folded");
      button.setAttribute("aria-expanded", String(!folded));
      button.dataset.more ??= button.textContent;
      button.textContent = folded ? button.dataset.more : "Show fewer";
      grids.forEach(settle);
    }
  });

  // A table of changes is a single tab stop; arrow keys move between its cells.
  const grids = [];
  const controlIn = (cell) => cell?.querySelector("button, a[href]");
  const inSight = (control) => control.offsetParent !== null;

  function makeGrid(table) {
    table.setAttribute("role", "grid");
    table.closest(".scroll").removeAttribute("tabindex");
    for (const control of table.querySelectorAll("button, a[href]")) control.tabIndex = -1;
    const grid = { table, current: null };
    grids.push(grid);
    settle(grid);
    table.addEventListener("focusin", (event) => stopAt(grid, event.target));
    table.addEventListener("keydown", (event) => {
      const next = goal(table, event);
      if (!next) return;
      event.preventDefault();
      next.focus();
    });
  }

  function stopAt(grid, control) {
    if (grid.current) grid.current.tabIndex = -1;
    grid.current = control;
    control.tabIndex = 0;
  }

  // If the tab stop is hidden by a filter or a fold, move it to the first visible cell.
  function settle(grid) {
    if (grid.current && inSight(grid.current)) return;
    const controls = [...grid.table.querySelectorAll("tbody [data-change]")];
    const control = controls.find(inSight) ?? controls[0];
    if (control) stopAt(grid, control);
  }

  function goal(table, event) {
    const cell = event.target.closest("td, th");
    const rows = [...table.rows];
    const row = rows.indexOf(cell.parentElement);
    const along = (down, across, from = [row + down, cell.cellIndex + across]) => {
      for (let [r, c] = from; r >= 0 && r < rows.length && c >= 0 && c < rows[r].cells.length; r += down, c += across) {
        const control = controlIn(rows[r].cells[c]);
        if (control && inSight(control)) return control;
      }
      return null;
    };
    const last = rows[row].cells.length - 1;
    const all = () => [...table.querySelectorAll("tbody [data-change]")].filter(inSight);
    switch (event.key) {
      case "ArrowDown": return along(1, 0);
      case "ArrowUp": return along(-1, 0);
      case "ArrowRight": return along(0, 1);
      case "ArrowLeft": return along(0, -1);
      case "Home": return event.ctrlKey ? all()[0] : along(0, 1, [row, 0]);
      case "End": return event.ctrlKey ? all().at(-1) : along(0, -1, [row, last]);
      default: return null;
    }
  }

  for (const table of document.querySelectorAll(".scroll > table")) if (table.querySelector("[data-change]")) makeGrid(table);

  // Details of one change
  let detailsData = null;

  function element(name, text) {
    const made = document.createElement(name);
    made.textContent = text;
    return made;
  }

  async function open(place) {
    detailsData ??= await unpackedJson("details-data");
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
    const sides = [["reference", change.reference, 0], ["checked", change.observed, 1]];
    byId("details-runs").replaceChildren(...sides.flatMap(([side, rhos, i]) => rhos.map((rho, run) => {
      const row = document.createElement("tr");
      const head = element("th", detailsData.runs[change.runs[i]][run] ?? "");
      head.scope = "row";
      row.append(head, element("td", side), element("td", rho === null ? "–" : rho.toFixed(3).replace("-", "−")));
      return row;
    })));
    byId("details").showModal();
    wake().then(() => drawDetails(change));
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
    // The range is at least as wide as the tolerance; otherwise noise would look like a change.
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
      xaxis: { ...axis, title: title("ρ of each run; vertical lines: means"), anchor: "y", range: [middle - reach, middle + reach] },
      yaxis: { ...axis, domain: [0.5, 1], tickvals: [2, 1], ticktext: ["reference", "checked"], range: [0.4, 2.6], showgrid: false },
      xaxis2: { ...axis, title: title("change of ρ; shaded: tolerance"), anchor: "y2", range: [-span, span], zeroline: true, zerolinecolor: "@axis" },
      yaxis2: { ...axis, domain: [0, 0.2], tickvals: [0], ticktext: ["change"], range: [-1, 1], showgrid: false, anchor: "x2" },
      shapes: [mean(change.means[0], 2), mean(change.means[1], 1),
        { type: "rect", xref: "x2", yref: "y2", x0: -tolerance, x1: tolerance, y0: -1, y1: 1, fillcolor: "@band", line: { width: 0 }, layer: "below" }],
    };
    const style = getComputedStyle(root);
    Plotly.react(byId("details-chart"), coloured(data, style), coloured(layout, style), config);
  }

  // Colours follow the system's setting; print is always light.
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

  // After two frames, the browser has painted everything that needs no script.
  requestAnimationFrame(() => setTimeout(begin, 0));
})();
