"use strict";
(() => {
  const draws = JSON.parse(document.getElementById("report-draws").textContent);
  const floats = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const sides = Object.entries(draws.sides);
  for (const [, side] of sides) {
    side.values = floats(side.values);
    side.shares = floats(side.shares);
  }
  const column = (side, scalar) => Array.from(
    side.values.subarray(scalar * side.count, (scalar + 1) * side.count),
    (value) => value + draws.centre[scalar],
  );
  const colour = (k) => draws.palette[k % draws.palette.length];
  const shown = (value) => String(Number(value.toPrecision(4)));

  const limits = (scalars) => {
    const ends = (name) => sides.flatMap(([, side]) => scalars.map((scalar) => side[name][scalar]));
    const low = Math.min(...ends("low")), high = Math.max(...ends("high"));
    return [low - draws.room * (high - low), high + draws.room * (high - low)];
  };

  // Round numbers between two ends, with as many digits as tell them apart.
  const ticks = ([low, high], most) => {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough);
    const first = Math.ceil(low / step), count = Math.floor(high / step) - first + 1;
    return Array.from({ length: Math.max(count, 0) }, (_, k) => {
      const value = (first + k) * step;
      const digits = Math.ceil(Math.log10(Math.max(Math.abs(value) / step, 1))) + 1;
      return [value, String(Number(value.toPrecision(Math.min(digits, 15))))];
    });
  };

  const HEIGHT = 300, LEFT = 62, BELOW = 46, ABOVE = 8, EDGE = 10;

  // Paints axes, dots and bars into a place; the pointer reads the nearest dot.
  const paint = (id, { x, y, x_label = "", y_label = "", dots = [], bars = [], breaks = [], axes = true }) => {
    const place = document.getElementById(id), canvas = place.querySelector("canvas");
    const width = place.clientWidth, ratio = window.devicePixelRatio || 1;
    canvas.width = width * ratio;
    canvas.height = HEIGHT * ratio;
    const pen = canvas.getContext("2d"), styles = getComputedStyle(document.documentElement);
    const [ink, quiet, line] = ["--ink", "--quiet", "--line"].map((name) => styles.getPropertyValue(name));
    pen.scale(ratio, ratio);
    pen.font = `12px ${getComputedStyle(document.body).fontFamily}`;
    const left = axes ? LEFT : 4, right = width - (axes ? EDGE : 4), bottom = HEIGHT - BELOW;
    const across = (value) => left + (value - x[0]) / (x[1] - x[0]) * (right - left);
    const upwards = (value) => bottom - (value - y[0]) / (y[1] - y[0]) * (bottom - ABOVE);
    const stroke = (style, ...ends) => {
      pen.strokeStyle = style;
      pen.beginPath();
      pen.moveTo(...ends.slice(0, 2));
      pen.lineTo(...ends.slice(2));
      pen.stroke();
    };
    breaks.forEach((value) => stroke(line, across(value), ABOVE, across(value), bottom));
    if (axes) {
      stroke(quiet, left, bottom, right, bottom);
      stroke(quiet, left, ABOVE, left, bottom);
      pen.fillStyle = ink;
      pen.textAlign = "center";
      for (const [value, words] of ticks(x, Math.max(2, width / 65))) {
        stroke(quiet, across(value), bottom, across(value), bottom + 4);
        pen.fillText(words, across(value), bottom + 17);
      }
      pen.fillText(x_label, (left + right) / 2, HEIGHT - 8);
      pen.textAlign = "right";
      for (const [value, words] of ticks(y, 7)) {
        stroke(quiet, left - 4, upwards(value), left, upwards(value));
        pen.fillText(words, left - 7, upwards(value) + 4);
      }
      pen.save();
      pen.translate(13, (ABOVE + bottom) / 2);
      pen.rotate(-Math.PI / 2);
      pen.textAlign = "center";
      pen.fillText(y_label, 0, 0);
      pen.restore();
    }
    pen.beginPath();
    pen.rect(left, ABOVE, right - left, bottom - ABOVE);
    pen.clip();
    pen.globalAlpha = 0.45;
    for (const bar of bars) {
      pen.fillStyle = bar.colour;
      const top = upwards(bar.high), base = upwards(bar.low);
      pen.fillRect(across(0), top, across(bar.width) - across(0), base - top);
    }
    pen.globalAlpha = 0.7;
    for (const dot of dots) {
      pen.fillStyle = dot.colour;
      pen.beginPath();
      pen.arc(across(dot.x), upwards(dot.y), 2, 0, 2 * Math.PI);
      pen.fill();
    }
    const reading = place.querySelector("output");
    canvas.onmouseleave = () => { reading.hidden = true; };
    canvas.onmousemove = ({ offsetX, offsetY }) => {
      let best = 100, found = null;
      for (const dot of dots) {
        const distance = (across(dot.x) - offsetX) ** 2 + (upwards(dot.y) - offsetY) ** 2;
        if (distance < best) [best, found] = [distance, dot];
      }
      reading.hidden = found === null;
      if (found === null) return;
      reading.textContent = found.read();
      reading.style.left = `${Math.min(across(found.x) + 10, Math.max(width - 160, 0))}px`;
      reading.style.top = `${upwards(found.y) + 10}px`;
    };
  };

  const parameter = document.getElementById("choose-parameter");
  const showParameter = () => {
    const members = draws.families[Number(parameter.value)], y = limits(members);
    for (const [name, side] of sides) {
      const dots = members.flatMap((scalar, k) => column(side, scalar).map((value, position) => ({
        x: position, y: value, colour: colour(k), read: () => [
          `${draws.names[scalar]}: ${shown(value)}`,
          `chain ${Math.floor(position / side.length) + 1}`,
          `draw ${(position % side.length) * side.every + 1}`,
        ].join("\n"),
      })));
      const breaks = [];
      for (let at = side.length; at < side.count; at += side.length) breaks.push(at - 0.5);
      const x = [-0.01 * side.count, 1.01 * side.count];
      paint(`plot-trace-${name}`, { x, y, x_label: side.axis, dots, breaks });
      const bars = members.flatMap((scalar, k) => {
        const low = side.low[scalar], step = (side.high[scalar] - low) / side.bars;
        return Array.from({ length: side.bars }, (_, j) => ({
          width: side.shares[scalar * side.bars + j] / step,
          low: low + j * step, high: low + (j + 1) * step, colour: colour(k),
        }));
      });
      const widest = Math.max(...bars.map((bar) => bar.width));
      paint(`plot-margin-${name}`, { x: [0, 1.05 * widest], y, bars, axes: false });
    }
    document.getElementById("chosen-estimates").replaceChildren(...members.map((scalar, k) => {
      const entry = document.createElement("span"), dot = document.createElement("i");
      dot.style.color = colour(k);
      entry.append(dot, `${draws.names[scalar]}  ${draws.words[scalar]}`);
      return entry;
    }));
  };

  const horizontal = document.getElementById("choose-horizontal");
  const vertical = document.getElementById("choose-vertical");
  const showPair = () => {
    const [first, second] = [horizontal, vertical].map((chooser) => Number(chooser.value));
    const labels = { x_label: draws.names[first], y_label: draws.names[second] };
    sides.forEach(([name, side], k) => {
      const own = k === sides.length - 1 ? colour(0) : "#8b949e", up = column(side, second);
      const dots = column(side, first).map((value, j) => ({
        x: value, y: up[j], colour: own,
        read: () => `${labels.x_label}: ${shown(value)}\n${labels.y_label}: ${shown(up[j])}`,
      }));
      paint(`plot-pair-${name}`, { x: limits([first]), y: limits([second]), ...labels, dots });
    });
  };
  const showAll = () => { showParameter(); showPair(); };

  // Still pictures give way only once everything could be drawn.
  const figures = document.querySelectorAll("figure.choice");
  const alive = (yes) => figures.forEach((figure) => figure.classList.toggle("alive", yes));
  alive(true);
  try {
    showAll();
  } catch (error) {
    alive(false);
    throw error;
  }
  parameter.addEventListener("change", showParameter);
  horizontal.addEventListener("change", showPair);
  vertical.addEventListener("change", showPair);
  window.addEventListener("resize", showAll);
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showAll);
  document.documentElement.dataset.live = "yes";
})();
