"use strict";
(() => {
  const runs = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const redraws = [];
  const trim = (number, digits) => String(Number(number.toFixed(digits)));
  const scaled = (value, units) => {
    let unit = 0;
    while (value >= 999.5 && unit + 1 < units.length) { value /= 1000; unit++; }
    return trim(value, value < 10 && unit > 0 ? 1 : 0) + " " + units[unit];
  };
  const bytes = (value) => scaled(value, ["B", "kB", "MB", "GB", "TB", "PB"]);
  const seconds = (value) => value >= 1 ? trim(value, 2) + " s" : value >= 1e-3 ? trim(value * 1e3, 2) + " ms" : trim(value * 1e6, 1) + " µs";
  const hue = (rank) => "hsl(" + ((rank * 137.508) % 360).toFixed(0) + " 62% " + (dark() ? "62%" : "45%") + ")";
  const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
  const add = (parent, name, properties = {}) => parent.appendChild(Object.assign(document.createElement(name), properties));

  // A canvas that is drawn again when the page or its colours change.
  function canvas(box, height, draw) {
    const element = add(box, "canvas");
    const redraw = () => {
      const width = Math.max(box.clientWidth, 200), ratio = devicePixelRatio || 1, tall = typeof height === "function" ? height() : height;
      element.width = width * ratio; element.height = tall * ratio; element.style.height = tall + "px";
      const c = element.getContext("2d");
      c.scale(ratio, ratio); c.font = "12px system-ui, sans-serif"; c.textBaseline = "middle";
      draw(c, width, tall);
    };
    redraws.push(redraw); redraw();
    return { element, redraw };
  }
  function keys(box, entries) {
    const line = add(box, "div", { className: "tools keys" });
    for (const [text, colour] of entries) {
      const key = add(line, "span", { className: "key" });
      const mark = add(key, "i"); key.append(text);
      const paint = () => { mark.style.background = colour(); };
      redraws.push(paint); paint();
    }
  }
  const steps = (most, count) => {
    const raw = most / count, power = 10 ** Math.floor(Math.log10(raw || 1));
    return [1, 2, 5, 10].map((m) => m * power).find((s) => s >= raw) || power * 10;
  };
  const LEFT = 64;
  function axes(c, width, height, x, y) {
    c.strokeStyle = css("--line"); c.fillStyle = css("--soft"); c.lineWidth = 1;
    c.textAlign = "right";
    for (let v = 0; v <= y.most * 1.0001; v += y.step) {
      const at = height - 26 - (v / y.most) * (height - 40);
      c.beginPath(); c.moveTo(LEFT, at); c.lineTo(width - 8, at); c.stroke(); c.fillText(y.text(v), LEFT - 6, at);
    }
    c.textAlign = "center";
    for (let v = Math.ceil(x.from / x.step) * x.step; v <= x.to * 1.0001; v += x.step)
      if ((v - x.from) / (x.to - x.from) < 0.96) c.fillText(x.text(v), LEFT + ((v - x.from) / (x.to - x.from)) * (width - LEFT - 12), height - 12);
  }

  function phases(run, box) {
    const names = run.phases, total = run.phaseSeconds.reduce((a, b) => a + b, 0) || 1;
    keys(box, names.map((name, i) => [`${name} ${seconds(run.phaseSeconds[i])}`, () => css("--" + name)]));
    canvas(box, 34, (c, width) => {
      let x = 0;
      names.forEach((name, i) => {
        const w = run.phaseSeconds[i] / total * width;
        c.fillStyle = css("--" + name); c.fillRect(x, 0, w, 34);
        if (w > 60) { c.fillStyle = css("--back"); c.textAlign = "center"; c.fillText(name, x + w / 2, 17); }
        x += w;
      });
    });
  }

  // Zooming and moving of a range of [0, end], by wheel, drag, buttons and keys.
  function zoom(box, end, changed, text) {
    const state = { from: 0, to: end };
    const tools = add(box, "div", { className: "tools" });
    const set = (from, to) => {
      const length = Math.min(Math.max(to - from, end * 1e-9), end);
      state.from = Math.min(Math.max(from, 0), end - length); state.to = state.from + length;
      label.textContent = `${text(state.from)} to ${text(state.to)}`; changed();
    };
    const about = (factor, at = 0.5) => {
      const length = (state.to - state.from) * factor, middle = state.from + (state.to - state.from) * at;
      set(middle - length * at, middle + length * (1 - at));
    };
    for (const [name, work, title] of [["+", () => about(0.5), "zoom in"], ["−", () => about(2), "zoom out"],
      ["◀", () => set(state.from - (state.to - state.from) / 2, state.to - (state.to - state.from) / 2), "back"],
      ["▶", () => set(state.from + (state.to - state.from) / 2, state.to + (state.to - state.from) / 2), "on"], ["all", () => set(0, end), "everything"]])
      add(tools, "button", { type: "button", textContent: name, title, onclick: work }).dataset.zoom = title;
    const label = add(tools, "span", { className: "range" });
    label.textContent = `${text(0)} to ${text(end)}`;
    state.attach = (element) => {
      const place = (event) => (event.offsetX - LEFT) / (element.clientWidth - LEFT - 12);
      element.addEventListener("wheel", (event) => {
        if (!event.ctrlKey && !event.shiftKey) return;
        event.preventDefault(); about(event.deltaY > 0 ? 1.3 : 0.77, Math.min(Math.max(place(event), 0), 1));
      }, { passive: false });
      let last = null;
      element.addEventListener("pointerdown", (event) => { last = event.clientX; element.setPointerCapture(event.pointerId); });
      element.addEventListener("pointerup", () => { last = null; });
      element.addEventListener("pointermove", (event) => {
        if (last === null) return;
        const by = (last - event.clientX) / (element.clientWidth - LEFT - 12) * (state.to - state.from);
        last = event.clientX; set(state.from + by, state.to + by);
      });
      element.addEventListener("dblclick", (event) => about(0.25, Math.min(Math.max(place(event), 0), 1)));
    };
    return state;
  }

  function timeline(run, box) {
    const { rows, calls, shares, files } = run.timeline, names = run.phases;
    keys(box, names.map((name) => [name, () => css("--" + name)]));
    let drawing = null;
    const range = zoom(box, run.seconds, () => drawing && drawing.redraw(), seconds);
    const high = () => Math.max(8, Math.min(26, 640 / rows.length));
    drawing = canvas(box, () => rows.length * high() + 30, (c, width, height) => {
      const h = high(), x = (t) => LEFT + (t - range.from) / (range.to - range.from) * (width - LEFT - 12);
      c.fillStyle = css("--soft"); c.textAlign = "right";
      const every = Math.ceil(14 / h);
      rows.forEach((row, i) => { if (i % every === 0) c.fillText("rank " + row, LEFT - 6, i * h + h / 2 + 2); });
      c.save(); c.beginPath(); c.rect(LEFT, 0, width - LEFT - 12, height - 26); c.clip();
      for (const [row, start, end, , , , parts] of calls) {
        if (end < range.from || start > range.to) continue;
        const x0 = x(start), w = Math.max(x(end) - x0, 0.6), all = parts.reduce((a, b) => a + b, 0) || 1;
        let at = x0;
        parts.forEach((part, p) => { const pw = part / all * w; if (pw > 0) { c.fillStyle = css("--" + names[p]); c.fillRect(at, row * h + 2, Math.max(pw, 0.3), h - 3); at += pw; } });
      }
      shares.forEach((row, i) => {
        const step = run.seconds / row.length;
        row.forEach((parts, s) => {
          const start = s * step;
          if (start + step < range.from || start > range.to) return;
          let bottom = i * h + h - 1;
          parts.forEach((part, p) => {
            if (!part) return;
            const tall = part / 255 * (h - 3);
            c.fillStyle = css("--" + names[p]); c.fillRect(x(start), bottom - tall, Math.max(x(start + step) - x(start), 0.7), tall); bottom -= tall;
          });
        });
      });
      c.restore();
      const step = steps(range.to - range.from, Math.max(2, width / 160));
      c.fillStyle = css("--soft"); c.textAlign = "center";
      for (let t = Math.ceil(range.from / step) * step; t <= range.to; t += step)
        if ((t - range.from) / (range.to - range.from) < 0.96) c.fillText(seconds(t), x(t), height - 12);
    });
    range.attach(drawing.element);
    const readout = add(box, "div", { className: "readout", textContent: shares.length ? "Shares of the phases in steps of time; zoom with the buttons, Ctrl and the wheel, or a double click." : "Point at a call. Zoom with the buttons, Ctrl and the wheel, or a double click." });
    drawing.element.addEventListener("mousemove", (event) => {
      const h = high(), row = Math.floor(event.offsetY / h), width = drawing.element.clientWidth;
      const unit = (range.to - range.from) / (width - LEFT - 12), time = range.from + (event.offsetX - LEFT) * unit;
      const call = calls.find((c) => c[0] === row && c[1] <= time + unit && c[2] >= time - unit);
      if (!call) return;
      const [, start, end, name, count, file, parts, rank] = call;
      const detail = parts.map((ns, i) => ns > 0 ? `${names[i]} ${seconds(ns / 1e9)}` : "").filter(Boolean).join(", ");
      readout.textContent = `rank ${rank}: ${name} of ${bytes(count)} to ${files[file]} at ${seconds(start)}, ${seconds(end - start)} (${detail})`;
    });
  }

  function lines(box, height, series, x, y, name) {
    keys(box, series.map((s) => [s.name, s.colour]));
    const drawing = canvas(box, height, (c, width, tall) => {
      axes(c, width, tall, x, y);
      const px = (v) => LEFT + (v - x.from) / (x.to - x.from) * (width - LEFT - 12), py = (v) => tall - 26 - Math.min(v / y.most, 1) * (tall - 40);
      for (const s of series) {
        c.strokeStyle = s.colour(); c.lineWidth = 1.6; c.setLineDash(s.dash || []); c.beginPath();
        s.points.forEach(([a, b], i) => i ? c.lineTo(px(a), py(b)) : c.moveTo(px(a), py(b)));
        c.stroke(); c.setLineDash([]);
      }
    });
    drawing.element.setAttribute("role", "img"); drawing.element.setAttribute("aria-label", name);
  }

  function bandwidth(run, box) {
    const { step, read, written, device } = run.bandwidth;
    const points = (values) => values.map((value, i) => [(i + 0.5) * step, value / step]);
    const series = [["written by the program", written, () => css("--accent")], ["read by the program", read, () => css("--pack")], ["on the device", device, () => css("--device")]]
      .filter(([, values]) => values.some((value) => value > 0)).map(([name, values, colour]) => ({ name, colour, points: points(values) }));
    if (!series.length) { add(box, "p", { className: "empty", textContent: "No data was read or written." }); return; }
    const most = Math.max(...series.flatMap((s) => s.points.map((p) => p[1]))), step2 = steps(most, 4);
    lines(box, 190, series, { from: 0, to: run.seconds, step: steps(run.seconds, 6), text: seconds },
      { most: Math.ceil(most / step2) * step2, step: step2, text: (v) => bytes(v) + "/s" }, "bytes per second over time");
  }

  function sizes(run, box) {
    const kinds = [["written", "--accent"], ["read", "--pack"], ["device", "--device"]].filter(([k]) => Object.keys(run.sizes[k]).length);
    if (!kinds.length) { add(box, "p", { className: "empty", textContent: "No accesses." }); return; }
    const all = kinds.flatMap(([k]) => Object.keys(run.sizes[k]).map(Number)), from = Math.min(...all), to = Math.max(...all) + 1;
    const most = Math.max(...kinds.flatMap(([k]) => Object.values(run.sizes[k])));
    keys(box, kinds.map(([k, colour]) => [k === "device" ? "on the device" : k, () => css(colour)]));
    canvas(box, 170, (c, width, height) => {
      const step = steps(most, 3), top = Math.ceil(most / step) * step, w = (width - LEFT - 12) / (to - from);
      axes(c, width, height, { from: 0, to: 1, step: 2, text: () => "" }, { most: top, step, text: (v) => scaled(v, ["", "k", "M", "G"]) });
      c.textAlign = "center";
      for (let power = from; power < to; power++) {
        kinds.forEach(([k, colour], i) => {
          const count = run.sizes[k][power] || 0, tall = count / top * (height - 40), each = (w - 4) / kinds.length;
          c.fillStyle = css(colour); c.fillRect(LEFT + (power - from) * w + 2 + i * each, height - 26 - tall, each - 1, tall);
        });
        if ((power - from) % Math.ceil(46 / w) === 0) { c.fillStyle = css("--soft"); c.fillText(binary(power), LEFT + (power - from + 0.5) * w, height - 12); }
      }
    });
  }
  const binary = (power) => 2 ** (power % 10) + " " + ["B", "KiB", "MiB", "GiB", "TiB", "PiB"][Math.floor(power / 10)];

  function estimates(run, box) {
    if (!run.points.length) { add(box, "p", { className: "empty", textContent: "No access had an estimate: they were contiguous." }); return; }
    const used = [...new Set(run.points.map((p) => p[2]))];
    keys(box, used.map((s) => [run.strategies[s], () => hue(s + 1)]));
    canvas(box, 300, (c, width, height) => {
      const values = run.points.flatMap((p) => [p[0], p[1]]).filter((v) => v > 0);
      const low = Math.floor(Math.log10(Math.min(...values))), high = Math.ceil(Math.log10(Math.max(...values)) + 1e-9);
      const span = Math.max(high - low, 1), size = Math.min(width - LEFT - 12, 620);
      const x = (v) => LEFT + (Math.log10(v) - low) / span * size, y = (v) => height - 38 - (Math.log10(v) - low) / span * (height - 50);
      c.strokeStyle = css("--line"); c.fillStyle = css("--soft");
      for (let p = low; p <= high; p++) {
        c.beginPath(); c.moveTo(x(10 ** p), y(10 ** low)); c.lineTo(x(10 ** p), y(10 ** high)); c.moveTo(x(10 ** low), y(10 ** p)); c.lineTo(x(10 ** high), y(10 ** p)); c.stroke();
        c.textAlign = "center"; c.fillText(seconds(10 ** p), x(10 ** p), height - 26);
        c.textAlign = "right"; c.fillText(seconds(10 ** p), LEFT - 6, y(10 ** p));
      }
      c.textAlign = "center"; c.fillText("estimated", LEFT + size / 2, height - 9);
      c.textAlign = "left"; c.fillText("measured", LEFT + 6, 10);
      c.strokeStyle = css("--soft"); c.beginPath(); c.moveTo(x(10 ** low), y(10 ** low)); c.lineTo(x(10 ** high), y(10 ** high)); c.stroke();
      for (const [a, b, s] of run.points) if (a > 0 && b > 0) { c.fillStyle = hue(s + 1); c.fillRect(x(a) - 1.5, y(b) - 1.5, 3, 3); }
    });
  }

  function map(run, box) {
    if (!run.maps.length) { add(box, "p", { className: "empty", textContent: "No extents were recorded." }); return; }
    const tools = add(box, "div", { className: "tools" }), place = add(box, "div");
    const select = add(tools, "select", { ariaLabel: "file" });
    run.maps.forEach((file, i) => add(select, "option", { value: i, textContent: file.name }));
    const show = () => { place.textContent = ""; fileMap(run.maps[select.value], place); };
    select.onchange = show; show();
  }
  function fileMap(file, box) {
    const panels = [["data of", file.owners], [file.written ? "written to the device by" : "read from the device by", file.writers]].filter(([, list]) => list.length);
    let drawings = [];
    const range = zoom(box, file.end, () => drawings.forEach((d) => d.redraw()), bytes);
    const readout = add(box, "div", { className: "readout", textContent: file.omitted ? `${file.omitted} further extents are not shown.` : "Point at a part of the file; zoom as in the timeline." });
    drawings = panels.map(([title, extents]) => {
      const ranks = [...new Set(extents.map((e) => e[0]))].sort((a, b) => a - b), rowOf = new Map(ranks.map((r, i) => [r, i]));
      const high = () => Math.max(5, Math.min(18, 300 / ranks.length));
      const drawing = canvas(box, () => ranks.length * high() + 48, (c, width, height) => {
        const h = high(), wide = width - LEFT - 12, length = range.to - range.from, perPixel = length / wide;
        c.fillStyle = css("--text"); c.textAlign = "left"; c.fillText(title, 8, 11);
        c.fillStyle = css("--soft"); c.textAlign = "right";
        const every = Math.ceil(14 / h);
        ranks.forEach((rank, i) => { if (i % every === 0) c.fillText("rank " + rank, LEFT - 6, 22 + i * h + h / 2); });
        c.save(); c.beginPath(); c.rect(LEFT, 20, wide, height - 44); c.clip();
        for (const [rank, offset, len, stride, count, rowStride, rows] of extents) {
          c.fillStyle = hue(rank);
          const y = 22 + rowOf.get(rank) * h, x = (at) => LEFT + (at - range.from) / perPixel;
          const rowLength = stride * (count - 1) + len;
          const first = rows > 1 ? Math.max(0, Math.floor((range.from - offset - rowLength) / rowStride)) : 0;
          const last = rows > 1 ? Math.min(rows - 1, Math.floor((range.to - offset) / rowStride)) : 0;
          const dense = (share) => { c.globalAlpha = Math.max(0.25, Math.min(share, 1)); };
          if (rows > 1 && rowStride < 2 * perPixel) {
            dense(len * count / rowStride); c.fillRect(x(offset), y, Math.max(x(offset + rowStride * (rows - 1) + rowLength) - x(offset), 1), h - 1.5); c.globalAlpha = 1; continue;
          }
          for (let row = first; row <= last; row++) {
            const base = offset + row * rowStride;
            if (base > range.to || base + rowLength < range.from) continue;
            if (count > 1 && stride < 2 * perPixel) { dense(len / stride); c.fillRect(x(base), y, Math.max(x(base + rowLength) - x(base), 1), h - 1.5); c.globalAlpha = 1; continue; }
            const from = count > 1 ? Math.max(0, Math.floor((range.from - base - len) / stride)) : 0, to = count > 1 ? Math.min(count - 1, Math.floor((range.to - base) / stride)) : 0;
            for (let run = from; run <= to; run++) { const at = base + run * stride; c.fillRect(x(at), y, Math.max(len / perPixel, 0.8), h - 1.5); }
          }
        }
        c.restore();
        const step = steps(length, Math.max(2, width / 150));
        c.fillStyle = css("--soft"); c.textAlign = "center";
        for (let at = Math.ceil(range.from / step) * step; at <= range.to; at += step)
          if ((at - range.from) / (range.to - range.from) < 0.96) c.fillText(bytes(at), LEFT + (at - range.from) / perPixel, height - 12);
      });
      range.attach(drawing.element);
      drawing.element.addEventListener("mousemove", (event) => {
        const at = range.from + (event.offsetX - LEFT) / (drawing.element.clientWidth - LEFT - 12) * (range.to - range.from);
        const holds = ([, offset, len, stride, count, rowStride, rows]) => {
          let inside = at - offset;
          if (inside < 0) return false;
          if (rows > 1) { const row = Math.floor(inside / rowStride); if (row >= rows) return false; inside -= row * rowStride; }
          if (count > 1) { const run = Math.floor(inside / stride); if (run >= count) return false; inside -= run * stride; }
          return inside < len;
        };
        const found = [...new Set(extents.filter(holds).map((e) => e[0]))];
        readout.textContent = `byte ${Math.floor(at)}: ${title} ${found.length ? "rank " + found.join(", ") : "no rank"}`;
      });
      return drawing;
    });
  }

  function progress(run, box) {
    if (!run.progress.length) { add(box, "p", { className: "empty", textContent: "No stream and no buffered file." }); return; }
    for (const { name, rank, unit, points } of run.progress) {
      add(box, "h3", { textContent: `${name}, rank ${rank}` });
      const line = (k, which) => points.map((p) => [p[0], p[1][which]]), most = Math.max(...points.map((p) => p[1][0]), 1), step = steps(most, 4);
      const x = { from: points[0][0], to: Math.max(points[points.length - 1][0], points[0][0] + 1e-6) };
      x.step = steps(x.to - x.from, 6); x.text = seconds;
      const text = unit === "bytes" ? bytes : (v) => scaled(v, ["", "k", "M"]) + "steps";
      lines(box, 160, [{ name: "accepted", colour: () => css("--accent"), points: line("a", 0) }, { name: "visible", colour: () => css("--wait"), points: line("v", 1) },
        { name: "durable", colour: () => css("--device"), points: line("d", 2), dash: [5, 3] }], x, { most: Math.ceil(most / step) * step, step, text }, "accepted, visible and durable " + unit);
      const cap = Math.max(...points.map((p) => p[2][1])), used = Math.max(...points.map((p) => p[2][0]));
      if (cap > 0) {
        const top = used > cap / 20 ? cap : Math.max(used * 1.2, 1), memoryStep = steps(top, 3);
        const series = [{ name: `memory in use, at most ${bytes(used)}`, colour: () => css("--exchange"), points: points.map((p) => [p[0], p[2][0]]) }];
        series.push({ name: `limit ${bytes(cap)}${top < cap ? " (above the plot)" : ""}`, colour: () => css("--soft"), dash: [2, 3], points: top < cap ? [] : points.map((p) => [p[0], p[2][1]]) });
        lines(box, 120, series, x, { most: Math.ceil(top / memoryStep) * memoryStep, step: memoryStep, text: bytes }, "memory of buffers");
      }
    }
  }

  const charts = { phases, timeline, bandwidth, sizes, estimates, map, progress };
  for (const section of document.querySelectorAll("section.run"))
    for (const box of section.querySelectorAll(".chart")) charts[box.dataset.chart](runs[section.dataset.run], box);
  let waiting = 0;
  const again = () => { cancelAnimationFrame(waiting); waiting = requestAnimationFrame(() => redraws.forEach((redraw) => redraw())); };
  addEventListener("resize", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
  document.documentElement.dataset.ready = "yes";
})();
