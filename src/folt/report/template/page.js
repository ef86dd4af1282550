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

  const limits = (scalars) => {
    const ends = (name) => sides.flatMap(([, side]) => scalars.map((scalar) => side[name][scalar]));
    const low = Math.min(...ends("low")), high = Math.max(...ends("high"));
    return [low - draws.room * (high - low), high + draws.room * (high - low)];
  };

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
    const data = {
      position: [], height: [], colour: [], parameter: [], value: [], chain: [], draw: [],
    };
    members.forEach((scalar, k) => column(side, scalar).forEach((value, position) => {
      data.position.push(position);
      data.height.push(value);
      data.colour.push(draws.palette[k % draws.palette.length]);
      data.parameter.push(draws.names[scalar]);
      data.value.push(shown(value));
      data.chain.push(Math.floor(position / side.length) + 1);
      data.draw.push((position % side.length) * side.every + 1);
    }));
    return data;
  };
  const bars = (side, members) => {
    const data = { width: [], low: [], high: [], colour: [] };
    members.forEach((scalar, k) => {
      const low = side.low[scalar], step = (side.high[scalar] - low) / side.bars;
      for (let j = 0; j < side.bars; j += 1) {
        data.width.push(side.shares[scalar * side.bars + j] / step);
        data.low.push(low + j * step);
        data.high.push(low + (j + 1) * step);
        data.colour.push(draws.palette[k % draws.palette.length]);
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
    fit("range-value", limits(members));
    document.getElementById("chosen-estimates").replaceChildren(...legend(members));
  };

  const horizontal = document.getElementById("choose-horizontal");
  const vertical = document.getElementById("choose-vertical");
  const showPair = () => {
    const [first, second] = [horizontal, vertical].map((chooser) => Number(chooser.value));
    for (const [name, side] of sides) {
      const x = column(side, first), y = column(side, second);
      model(`pair-${name}`).data = { x, y, horizontal: x.map(shown), vertical: y.map(shown) };
      model(`label-x-${name}`).text = draws.names[first];
      model(`label-y-${name}`).text = draws.names[second];
    }
    fit("range-x", limits([first]));
    fit("range-y", limits([second]));
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
