"use strict";
(async () => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = document.querySelectorAll("figure.choice");
  const alive = (yes) => figures.forEach((figure) => figure.classList.toggle("alive", yes));

  const floats = (text) => {
    const bytes = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
    return new Float32Array(bytes.buffer);
  };
  const shown = (value) => String(Number(value.toPrecision(4)));
  const spread = (columns, room) => {
    const values = [].concat(...columns.map((column) => Array.from(column)))
      .filter(Number.isFinite).sort((a, b) => a - b);
    const at = (share) => values[Math.round(share * (values.length - 1))] ?? 0;
    const low = at(0.001), high = at(0.999);
    const margin = room * (high - low) || 1;
    return [low - margin, high + margin];
  };

  const draws = read("report-draws");
  const sides = Object.entries(draws.sides);
  for (const [, side] of sides) {
    side.values = floats(side.values);
    side.shares = floats(side.shares);
  }
  const column = (side, scalar) => Array.from(
    side.values.subarray(scalar * side.count, (scalar + 1) * side.count),
    (value) => value + draws.centre[scalar],
  );

  // Still pictures give way only once everything could be drawn.
  alive(true);
  let plots;
  try {
    const described = read("report-document");
    await Bokeh.embed.embed_items(described.documents, [{
      docid: "report", roots: described.roots, root_ids: Object.keys(described.roots),
    }]);
    plots = Bokeh.documents[0];
  } catch (error) {
    alive(false);
    throw error;
  }
  const model = (name) => plots.get_model_by_name(name);
  const fit = (name, [start, end]) => model(name).setv({ start, end });

  const traces = (side, members) => {
    const data = { position: [], value: [], colour: [], name: [], chain: [], draw: [], shown: [] };
    members.forEach((scalar, k) => column(side, scalar).forEach((value, position) => {
      data.position.push(position);
      data.value.push(value);
      data.colour.push(draws.palette[k % draws.palette.length]);
      data.name.push(draws.names[scalar]);
      data.chain.push(Math.floor(position / side.length) + 1);
      data.draw.push((position % side.length) * side.every + 1);
      data.shown.push(shown(value));
    }));
    return data;
  };
  const bars = (side, members) => {
    const data = { width: [], low: [], high: [], colour: [], name: [] };
    members.forEach((scalar, k) => {
      const low = side.low[scalar], step = (side.high[scalar] - low) / side.bars;
      for (let j = 0; j < side.bars; j += 1) {
        data.width.push(side.shares[scalar * side.bars + j] / step);
        data.low.push(low + j * step);
        data.high.push(low + (j + 1) * step);
        data.colour.push(draws.palette[k % draws.palette.length]);
        data.name.push(draws.names[scalar]);
      }
    });
    return data;
  };
  const legend = (members) => members.map((scalar, k) => {
    const entry = document.createElement("span"), dot = document.createElement("i");
    dot.style.color = draws.palette[k % draws.palette.length];
    entry.append(dot, `${draws.names[scalar]}  ${draws.words[scalar]}`);
    return entry;
  });

  const parameter = document.getElementById("choose-parameter");
  const showParameter = () => {
    const members = draws.families[Number(parameter.value)];
    for (const [name, side] of sides) {
      model(`trace-${name}`).data = traces(side, members);
      model(`margin-${name}`).data = bars(side, members);
    }
    const columns = sides.flatMap(([, side]) => members.map((scalar) => column(side, scalar)));
    fit("range-value", spread(columns, 0.05));
    document.getElementById("chosen-estimates").replaceChildren(...legend(members));
  };

  const horizontal = document.getElementById("choose-horizontal");
  const vertical = document.getElementById("choose-vertical");
  const showPair = () => {
    const [first, second] = [horizontal, vertical].map((chooser) => Number(chooser.value));
    const columns = { x: [], y: [] };
    for (const [name, side] of sides) {
      const x = column(side, first), y = column(side, second);
      model(`pair-${name}`).data = { x, y, shown_x: x.map(shown), shown_y: y.map(shown) };
      model(`label-x-${name}`).text = draws.names[first];
      model(`label-y-${name}`).text = draws.names[second];
      columns.x.push(x);
      columns.y.push(y);
    }
    fit("range-x", spread(columns.x, 0.05));
    fit("range-y", spread(columns.y, 0.05));
  };

  parameter.addEventListener("change", showParameter);
  horizontal.addEventListener("change", showPair);
  vertical.addEventListener("change", showPair);
  showParameter();
  showPair();

  const repaint = () => plots.roots().forEach((plot) => plot.change.emit());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
  document.documentElement.dataset.live = "yes";
})();
