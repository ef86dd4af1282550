"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const body = document.querySelector("#jobs tbody");
  const heads = [...document.querySelectorAll("#jobs th")];
  const filter = document.getElementById("filter");
  const count = document.getElementById("count");
  const chips = [...document.querySelectorAll(".chips button")];
  const at = (name) => data.columns.indexOf(name);
  const [job, error, verdict] = ["job", "error", "verdict"].map(at);
  const MOST = 500;
  let sorted = -1, direction = 1, chosen = null;

  const words = (row) => [job, error, verdict].filter((k) => k >= 0).map((k) => row[k] ?? "").join(" ").toLowerCase();
  const shown = (value) => {
    if (value === null || value === undefined) return "";
    if (typeof value !== "number" || Number.isInteger(value)) return String(value);
    return Number(value.toPrecision(Math.abs(value) < 1e4 ? 4 : 6)).toString();
  };
  const compare = (a, b) => {
    const [x, y] = [a[sorted], b[sorted]];
    if (x === null || y === null) return (x === null) - (y === null);
    const order = typeof x === "number" && typeof y === "number" ? x - y : String(x).localeCompare(String(y));
    return direction * order;
  };
  const isFailed = (row) => error >= 0 && row[error] !== null;

  function draw() {
    const asked = filter.value.trim().toLowerCase();
    let rows = data.rows.filter((row) => words(row).includes(asked));
    if (chosen === "failed") rows = rows.filter(isFailed);
    else if (chosen !== null) rows = rows.filter((row) => row[verdict] === chosen);
    if (sorted >= 0) rows = [...rows].sort(compare);
    body.replaceChildren(...rows.slice(0, MOST).map((row) => {
      const line = document.createElement("tr");
      row.forEach((value, k) => {
        const cell = line.insertCell();
        if (k === job) {
          const link = document.createElement("a");
          link.href = encodeURIComponent(value) + "/" + (isFailed(row) ? "row.json" : data.link);
          link.textContent = value;
          cell.append(link);
        } else {
          cell.textContent = shown(value);
          if (k === error) cell.className = "words";
        }
      });
      return line;
    }));
    const cut = rows.length > MOST ? `, the first ${MOST} shown` : "";
    count.textContent = `${rows.length.toLocaleString("en")} of ${data.rows.length.toLocaleString("en")}${cut}`;
  }

  function sortBy(k) {
    direction = sorted === k ? -direction : 1;
    sorted = k;
    heads.forEach((head, n) => {
      if (n === k) head.setAttribute("aria-sort", direction > 0 ? "ascending" : "descending");
      else head.removeAttribute("aria-sort");
    });
    draw();
  }
  heads.forEach((head, k) => {
    head.tabIndex = 0;
    head.className = "sortable";
    head.addEventListener("click", () => sortBy(k));
    head.addEventListener("keydown", (event) => { if (event.key === "Enter") sortBy(k); });
  });
  chips.forEach((chip) => chip.addEventListener("click", () => {
    chosen = chosen === chip.dataset.verdict ? null : chip.dataset.verdict;
    chips.forEach((other) => other.setAttribute("aria-pressed", String(other.dataset.verdict === chosen)));
    draw();
  }));
  filter.addEventListener("input", draw);
  draw();
})();
