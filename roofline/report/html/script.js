"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const get = (id) => document.getElementById(id);
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const SVG = "http://www.w3.org/2000/svg";

  function make(tag, attributes = {}, ...inside) {
    const element = tag.startsWith("svg:") ? document.createElementNS(SVG, tag.slice(4)) : document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "class") element.setAttribute("class", value);
      else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else element.setAttribute(name, value);
    }
    element.append(...inside);
    return element;
  }

  // Numbers for people: three digits and an SI prefix.
  const PREFIXES = [[1e18, "E"], [1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "µ"], [1e-9, "n"]];
  function shown(value, unit) {
    if (!(value > 0)) return `0 ${unit}`;
    const [size, prefix] = PREFIXES.find(([s, p]) => value >= s * 0.9995 && !(unit === "s" && s > 1)) || [1e-12, "p"];
    return `${Number((value / size).toPrecision(3))} ${prefix}${unit}`;
  }
  const percent = (share) => `${Number((share * 100).toPrecision(3))} %`;

  // ------------------------------------------------------------------ light and dark
  const button = get("theme");
  const THEMES = ["auto", "light", "dark"];
  let theme = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    theme = (theme + 1) % THEMES.length;
    button.textContent = `theme: ${THEMES[theme]}`;
    if (theme) document.documentElement.dataset.theme = THEMES[theme];
    else delete document.documentElement.dataset.theme;
  });

  // ------------------------------------------------------------------ tables
  for (const [id, orders] of Object.entries(data.orders || {})) {
    const body = get(id).tBodies[0];
    const rows = [...body.rows];
    all("thead button", get(id)).forEach((head, column) => {
      head.addEventListener("click", () => {
        const cell = head.parentElement;
        const down = cell.getAttribute("aria-sort") === "ascending";
        all("thead th", get(id)).forEach((other) => other.removeAttribute("aria-sort"));
        cell.setAttribute("aria-sort", down ? "descending" : "ascending");
        const order = down ? [...orders[column]].reverse() : orders[column];
        body.append(...order.map((i) => rows[i]));
      });
    });
  }

  // ------------------------------------------------------------------ roofline
  const plot = document.querySelector("#plot svg");
  if (plot && data.rows) roofline();

  function roofline() {
    const rows = data.rows;
    const number = (element, name) => Number(element.getAttribute(name));
    const clip = plot.querySelector("clipPath rect");
    const base = { left: number(clip, "x"), top: number(clip, "y"), wide: number(clip, "width"), tall: number(clip, "height") };
    const u = (x) => (x - base.left) / base.wide;
    const v = (y) => (y - base.top) / base.tall;
    const ends = (e) => [u(number(e, "x1")), v(number(e, "y1")), u(number(e, "x2")), v(number(e, "y2"))];
    const marks = all("path.mark", plot).map((e) => {
      const [x, y] = e.getAttribute("transform").match(/-?[\d.]+/g).map(Number);
      const kind = ["bound", "estimate", "measured"].find((k) => e.classList.contains(`k-${k}`));
      return { e, x: u(x), y: v(y), i: Number(e.dataset.i), kind, base: e.classList.contains("base"), r: e.getBBox().width / 2 };
    });
    const joins = all(".marks .join", plot).map((e) => ({ e, at: ends(e), i: Number(e.dataset.i) }));
    const lines = all("line[data-roof]", plot).map((e) => ({ e, at: ends(e), roof: e.dataset.roof }));
    const roofNames = all("text[data-roof]", plot);
    const grid = { x: all(".gx", plot), y: all(".gy", plot) };
    all(".tx", plot).forEach((e) => e.remove());  // all are named anew, since another width has room for others
    const ticks = { x: grid.x.map((e) => plot.appendChild(make("svg:text", { "class": "quiet tx", "text-anchor": "middle" }, e.dataset.t))), y: all(".ty", plot) };
    const gridAt = { x: grid.x.map((e) => u(number(e, "x1"))), y: grid.y.map((e) => v(number(e, "y1"))) };
    const axes = all(".axis", plot);
    const loose = all(":scope > text:not([data-roof]):not([data-i]):not(.tx):not(.ty)", plot);
    all(":scope > [data-i]", plot).forEach((e) => e.remove());  // labels are placed anew for each view
    const layer = make("svg:g", { "class": "names" });
    plot.append(layer);
    const off = { limiter: new Set(), roof: new Set(), kind: new Set() };
    const view = { k: 1, x: 0, y: 0 };
    const area = { left: base.left, top: base.top };
    let picked = null;

    const across = (x) => area.left + ((x - view.x) * view.k) * area.wide;
    const down = (y) => area.top + ((y - view.y) * view.k) * area.tall;
    const inside = (x, y) => x >= area.left - 1 && x <= area.left + area.wide + 1 && y >= area.top - 1 && y <= area.top + area.tall + 1;
    const show = (e, yes) => e.classList.toggle("off", !yes);
    const seen = (i) => !off.limiter.has(rows[i].class);

    const widths = new Map();
    function widthOf(text) {
      const said = text.textContent;
      if (!widths.has(said)) {
        show(text, true);
        widths.set(said, text.getComputedTextLength());
      }
      return widths.get(said);
    }

    function put(e, values) {
      for (const [name, value] of Object.entries(values)) e.setAttribute(name, typeof value === "number" ? value.toFixed(1) : value);
    }

    function line(e, [x1, y1, x2, y2]) {
      put(e, { x1: across(x1), y1: down(y1), x2: across(x2), y2: down(y2) });
    }

    function layout() {
      const wide = Math.max(320, Math.min(1060, plot.parentElement.clientWidth));
      const tall = Math.round(Math.max(340, Math.min(600, wide * 0.62)));
      area.wide = wide - area.left - 16;
      area.tall = tall - area.top - 46;
      plot.setAttribute("viewBox", `0 0 ${wide} ${tall}`);
      put(clip, { width: area.wide, height: area.tall });
      const bottom = area.top + area.tall;
      put(axes[0], { y1: bottom, y2: bottom, x2: area.left + area.wide });
      put(axes[1], { y1: area.top, y2: bottom });
      put(loose.find((e) => e.textContent.startsWith("FLOP per byte")), { x: area.left + area.wide / 2, y: bottom + 41 });
      let last = -Infinity;
      grid.x.forEach((e, n) => {
        const x = across(gridAt.x[n]);
        put(e, { x1: x, x2: x, y1: area.top, y2: bottom });
        put(ticks.x[n], { x, y: bottom + 20 });
        const fits = x >= area.left && x <= area.left + area.wide;
        show(e, fits);
        const half = widthOf(ticks.x[n]) / 2, room = fits && x - half > last + 5;
        show(ticks.x[n], room);
        if (room) last = x + half;
      });
      grid.y.forEach((e, n) => {
        const y = down(gridAt.y[n]);
        put(e, { x1: area.left, x2: area.left + area.wide, y1: y, y2: y });
        put(ticks.y[n], { x: area.left - 6, y: y + 5 });
        const fits = y >= area.top && y <= bottom;
        show(e, fits);
        show(ticks.y[n], fits);
      });
      lines.forEach((l) => {
        line(l.e, l.at);
        show(l.e, !off.roof.has(l.roof));
      });
      joins.forEach((j) => {
        line(j.e, j.at);
        show(j.e, seen(j.i) && !off.kind.size);
        j.e.setAttribute("clip-path", "url(#area)");
      });
      marks.forEach((m) => {
        const x = across(m.x), y = down(m.y);
        m.e.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
        m.on = seen(m.i) && !off.kind.has(m.kind) && inside(x, y);
        show(m.e, m.on);
      });
      labels();
    }

    // Labels: the first place around a mark that is free, the largest shares first.
    function labels() {
      layer.replaceChildren();
      const taken = marks.filter((m) => m.on).map((m) => {
        const x = across(m.x), y = down(m.y);
        return [x - m.r, y - m.r, x + m.r, y + m.r];
      });
      const free = (b) => b[0] >= area.left && b[1] >= area.top && b[2] <= area.left + area.wide && b[3] <= area.top + area.tall
        && !taken.some((t) => b[0] < t[2] && t[0] < b[2] && b[1] < t[3] && t[1] < b[3]);
      const place = (text, spots) => {
        const wide = widthOf(text);
        for (const [x, y, at] of spots) {
          const left = x - (at === "end" ? wide : at === "middle" ? wide / 2 : 0);
          const box = [left, y - 12, left + wide, y + 4];
          if (!free(box)) continue;
          taken.push(box);
          put(text, { x, y, "text-anchor": at });
          return true;
        }
        return false;
      };
      roofNames.forEach((text) => {
        show(text, true);
        const own = lines.find((l) => l.roof === text.dataset.roof);
        show(text, Boolean(own) && !off.roof.has(own.roof) && place(text, along(own.at)));
      });
      const best = new Map();
      marks.forEach((m) => { if (m.on && !m.base) best.set(m.i, m); });
      [...best.values()].sort((a, b) => (rows[b.i].share || 0) - (rows[a.i].share || 0) || a.i - b.i).slice(0, 60).forEach((m) => {
        const name = rows[m.i].id;
        const text = make("svg:text", { "class": `halo name${m.i === picked ? " pick" : ""}` }, name.length > 24 ? `${name.slice(0, 23)}…` : name);
        layer.append(text);
        const x = across(m.x), y = down(m.y), gap = m.r + 4;
        const spots = [[x + gap, y + 5, "start"], [x - gap, y + 5, "end"], [x, y - gap, "middle"], [x, y + gap + 10, "middle"],
          [x + gap, y - gap, "start"], [x + gap, y + gap + 8, "start"], [x - gap, y - gap, "end"], [x - gap, y + gap + 8, "end"]];
        if (!place(text, spots)) text.remove();
      });
    }

    function along([x1, y1, x2, y2]) {
      const spots = [];
      const flat = Math.abs(y1 - y2) < 1e-6, upright = Math.abs(x1 - x2) < 1e-6;
      for (const t of flat ? [1, 0.9, 0.8, 0.65, 0.5, 0.3] : [0.8, 0.65, 0.9, 0.5, 0.35, 0.2, 0.1, 0.05]) {
        const x = across(x1 + (x2 - x1) * t), y = down(y1 + (y2 - y1) * t);
        if (flat) spots.push([Math.min(x, area.left + area.wide) - 4, y - 6, "end"], [Math.min(x, area.left + area.wide) - 4, y + 17, "end"]);
        else if (upright) spots.push([x + 5, Math.min(y, area.top + area.tall) - 8, "start"], [x - 5, Math.min(y, area.top + area.tall) - 8, "end"]);
        else spots.push([x - 7, y, "end"], [x + 9, y + 9, "start"]);
      }
      return spots;
    }

    // What is picked, by pointer or keys.
    const detail = get("detail");
    const HINT = "Point at a mark, or focus the figure and use the arrow keys: its figures stand here. + and - zoom, 0 shows all.";
    detail.textContent = HINT;
    function pick(i, scroll) {
      picked = i;
      all(".pick").forEach((e) => e.classList.remove("pick"));
      if (i === null) {
        detail.textContent = HINT;
        return labels();
      }
      marks.forEach((m) => { if (m.i === i) m.e.classList.add("pick"); });
      const row = document.querySelector(`#steps tr[data-i="${i}"]`);
      if (row) {
        row.classList.add("pick");
        if (scroll) row.scrollIntoView({ block: "nearest" });
      }
      const r = rows[i];
      const rates = Object.entries(r.times).map(([kind, s]) => `${kind} ${shown(s, "s")}${r.flop ? ` (${shown(r.flop / s, "FLOP/s")})` : ""}`);
      const parts = [`${r.limiter || "nothing"} binds`, ...rates];
      if (r.flop && r.hbm) parts.push(`${Number((r.flop / r.hbm).toPrecision(3))} FLOP/B of HBM`);
      if (r.share !== null) parts.push(`${percent(r.share)} of the bound's time`);
      if (r.limits) parts.push(`its estimate is decided by ${r.limits}`);
      detail.textContent = `${r.id}: ${parts.join("; ")}`;
      labels();
    }
    marks.forEach((m) => {
      m.e.addEventListener("pointerenter", () => pick(m.i, false));
      m.e.addEventListener("click", () => pick(m.i, true));
    });
    all("#steps tbody tr").forEach((row) => row.addEventListener("click", () => pick(Number(row.dataset.i), false)));

    function zoom(factor, x = 0.5, y = 0.5) {
      const k = Math.max(1, Math.min(60, view.k * factor));
      view.x += x / view.k - x / k;
      view.y += y / view.k - y / k;
      view.k = k;
      settle();
    }
    function settle() {
      const most = 1 - 1 / view.k;
      view.x = Math.max(0, Math.min(most, view.x));
      view.y = Math.max(0, Math.min(most, view.y));
      layout();
    }
    function reset() {
      Object.assign(view, { k: 1, x: 0, y: 0 });
      layout();
    }
    function step(horizontal, sign) {
      const visible = new Map();
      marks.forEach((m) => { if (m.on && !m.base) visible.set(m.i, m); });
      const order = [...visible.values()].sort((a, b) => (horizontal ? a.x - b.x : b.y - a.y) || a.i - b.i);
      if (!order.length) return;
      const at = order.findIndex((m) => m.i === picked);
      pick(order[at < 0 ? 0 : (at + sign + order.length) % order.length].i, true);
    }
    plot.setAttribute("tabindex", "0");
    plot.addEventListener("keydown", (event) => {
      const shift = event.shiftKey, move = 0.15 / view.k;
      const act = {
        ArrowRight: () => (shift ? (view.x += move, settle()) : step(true, 1)),
        ArrowLeft: () => (shift ? (view.x -= move, settle()) : step(true, -1)),
        ArrowUp: () => (shift ? (view.y -= move, settle()) : step(false, 1)),
        ArrowDown: () => (shift ? (view.y += move, settle()) : step(false, -1)),
        "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), "0": reset, Escape: () => pick(null),
      }[event.key];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    const where = (event) => {
      const box = plot.getBoundingClientRect(), scale = plot.viewBox.baseVal.width / box.width;
      return [((event.clientX - box.left) * scale - area.left) / area.wide, ((event.clientY - box.top) * scale - area.top) / area.tall];
    };
    plot.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.metaKey) return;  // the page scrolls
      event.preventDefault();
      zoom(event.deltaY < 0 ? 1.25 : 0.8, ...where(event));
    }, { passive: false });
    let drag = null;
    plot.addEventListener("pointerdown", (event) => { drag = where(event); });
    plot.addEventListener("pointermove", (event) => {
      if (!drag || view.k === 1) return;
      const now = where(event);
      view.x -= (now[0] - drag[0]) / view.k;
      view.y -= (now[1] - drag[1]) / view.k;
      drag = now;
      settle();
    });
    for (const name of ["pointerup", "pointerleave"]) plot.addEventListener(name, () => { drag = null; });

    // Controls: zoom, and what is shown.
    const controls = get("controls");
    controls.hidden = false;
    const push = (said, name, act) => make("button", { type: "button", "aria-label": name, onclick: act }, said);
    controls.append(make("span", {}, push("+", "zoom in", () => zoom(1.5)), " ", push("−", "zoom out", () => zoom(1 / 1.5)), " ", push("all", "show all", reset)));
    function choices(heading, set, options, after) {
      const field = make("fieldset", {}, make("legend", {}, heading));
      options.forEach(([key, said, sample]) => {
        const box = make("input", { type: "checkbox", "data-key": key });
        box.checked = true;
        box.addEventListener("change", () => {
          if (box.checked) set.delete(key);
          else set.add(key);
          layout();
          after();
        });
        field.append(make("label", {}, box, ...(sample ? [sample] : []), said));
      });
      controls.append(field);
    }
    const sample = (limit, kind) => {
      const own = marks.find((m) => !m.base && (limit ? rows[m.i].class === limit : true));
      const r = own.r || 5, icon = make("svg:svg", { viewBox: "-8 -8 16 16", "aria-hidden": "true" });
      icon.append(limit
        ? make("svg:path", { "class": `mark k-measured l-${limit}`, d: own.e.getAttribute("d"), transform: `scale(${(6 / r).toFixed(2)})` })
        : make("svg:circle", { "class": `mark k-${kind} l-none`, r: "5.5" }));
      return icon;
    };
    const limits = [...new Set(marks.map((m) => rows[m.i].class))];
    const NAMES = { none: "nothing", link: "a link" };
    choices("what binds", off.limiter, limits.map((l) => [l, NAMES[l] || l, sample(l)]), () => {
      all("#steps tbody tr").forEach((row) => show(row, seen(Number(row.dataset.i))));
    });
    const kinds = [...new Set(marks.filter((m) => !m.base).map((m) => m.kind))];
    choices("kind", off.kind, kinds.map((k) => [k, k, sample(null, k)]), () => {});
    choices("roofs", off.roof, [...new Set(lines.map((l) => l.roof))].map((r) => [r, (data.roofs || {})[r] || r]), () => {});
    layout();
    new ResizeObserver(layout).observe(plot.parentElement);
  }

  // ------------------------------------------------------------------ waterfall of one step
  const fall = get("fall");
  if (fall && data.fall) {
    const choice = make("select", { id: "fall-step" }, make("option", { value: "" }, "the whole"));
    data.rows.forEach((row, i) => { if (data.fall.rows[i]) choice.append(make("option", { value: i }, row.id)); });
    const holder = get("fall-choice");
    holder.hidden = false;
    holder.append(make("label", {}, "of ", choice));
    const draw = () => waterfall(choice.value === "" ? data.fall.whole : data.fall.rows[Number(choice.value)]);
    choice.addEventListener("change", draw);
    draw();
    new ResizeObserver(draw).observe(fall);
  }

  // Bars from stages: each begins where the one before it ended, totals begin at 0.
  function barsOf({ stages, estimate, measured }) {
    const bars = [];
    let at = 0;
    for (const [index, time] of stages) {
      const name = data.fall.names[index];
      if (name === "unexplained") bars.push(["estimate", 0, estimate, "total"]);
      bars.push([name, at, at + time, name === "ideal" ? "total" : time > 0 ? "more" : "less"]);
      at += time;
    }
    if (measured !== null) bars.push(["measured", 0, measured, "total"]);
    else if (estimate !== null) bars.push(["estimate", 0, estimate, "total"]);
    return bars;
  }

  function waterfall(stages) {
    const bars = barsOf(stages);
    const wide = Math.max(320, Math.min(900, fall.clientWidth)), left = 146, right = wide < 480 ? 92 : 150, row = 28;
    const high = Math.max(...bars.map((b) => Math.max(b[1], b[2]))), low = Math.min(0, ...bars.map((b) => Math.min(b[1], b[2])));
    const x = (value) => left + ((value - low) / (high - low || 1)) * (wide - left - right);
    const said = bars.map(([name, a, b, sort]) => `${name} ${sort === "more" ? "+" : sort === "less" ? "-" : ""}${shown(Math.abs(b - a), "s")}`);
    const svg = make("svg:svg", { viewBox: `0 0 ${wide} ${row * bars.length + 8}`, role: "img", "aria-label": said.join("; ") });
    const last = bars[bars.length - 1][2] || 1, COLOURS = { total: "hbm", more: "tensor", less: "l2" };
    bars.forEach(([name, a, b, sort], i) => {
      const y = row * i, from = Math.min(x(a), x(b)), to = Math.max(x(a), x(b));
      svg.append(
        make("svg:text", { x: left - 8, y: y + 17, "text-anchor": "end", "class": sort === "total" ? "head" : "" }, name),
        make("svg:rect", { x: from.toFixed(1), y: y + 4, width: Math.max(1, to - from).toFixed(1), height: row - 9, "class": `bar l-${COLOURS[sort]}` }),
      );
      const share = wide < 480 ? "" : `, ${percent(Math.abs(b - a) / last)}`;
      svg.append(make("svg:text", { x: wide - 4, y: y + 17, "text-anchor": "end" }, said[i].slice(name.length + 1) + share));
    });
    fall.replaceChildren(svg);
  }

  // ------------------------------------------------------------------ Amdahl
  const slider = get("slider");
  if (slider && Object.keys(data.whatif || {}).length) {
    const answer = get("answer");
    const kind = make("select", { "aria-label": "shares of" }, ...Object.keys(data.whatif).map((k) => make("option", { value: k }, k)));
    const which = make("select", { "aria-label": "step" });
    const range = make("input", { type: "range", min: "0", max: "3", step: "0.01", value: "0.301", "aria-label": "times faster" });
    slider.hidden = false;
    slider.append(make("label", {}, "by ", kind), make("label", {}, "step ", which), make("label", {}, "how much faster"), range);
    function options() {
      const shares = data.whatif[kind.value].shares, kept = which.value;
      const order = shares.map((_, i) => i).filter((i) => shares[i] > 0).sort((a, b) => shares[b] - shares[a] || a - b);
      which.replaceChildren(...order.map((i) => make("option", { value: i }, `${data.rows[i].id} (${percent(shares[i])})`)));
      if (order.includes(Number(kept)) && kept !== "") which.value = kept;
    }
    function tell() {
      const { whole_s: whole, shares } = data.whatif[kind.value];
      const f = shares[Number(which.value)], s = Number((10 ** Number(range.value)).toPrecision(2)), after = 1 - f + f / s;
      const times = (factor) => `${Number(factor.toPrecision(3))}x`;
      const limit = f < 1 - 1e-12 ? `at most ${times(1 / (1 - f))} were it free` : "without limit were it free";
      range.setAttribute("aria-valuetext", times(s));
      answer.textContent = `${data.rows[Number(which.value)].id} ${times(s)} faster: the whole ${times(1 / after)} faster, `
        + `${shown(whole, "s")} becomes ${shown(whole * after, "s")} (${kind.value}); ${limit}.`;
    }
    kind.addEventListener("change", () => { options(); tell(); });
    which.addEventListener("change", tell);
    range.addEventListener("input", tell);
    options();
    if (which.options.length) tell();
    else slider.hidden = true;
  }
})();
