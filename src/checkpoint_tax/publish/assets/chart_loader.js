// Draws every chart of the page and draws it again when the reader switches light and dark.
// Bundled with Vega at build time, which supplies vegaEmbed; nothing here is fetched.

const inks = {
  light: { text: "#24292f", quiet: "#57606a", grid: "#d8dee4" },
  dark: { text: "#e6edf3", quiet: "#a5b0bb", grid: "#3b434b" },
};

function isDark() {
  const root = document.documentElement;
  const chosen = root.dataset.theme || root.dataset.mode;
  if (chosen === "dark" || chosen === "light") return chosen === "dark";
  return window.matchMedia("(prefers-color-scheme: dark)").matches;
}

function look(dark) {
  const ink = dark ? inks.dark : inks.light;
  const labels = { labelColor: ink.quiet, titleColor: ink.text };
  return {
    background: "transparent",
    title: { color: ink.text, subtitleColor: ink.quiet },
    axis: { ...labels, gridColor: ink.grid, domainColor: ink.quiet, tickColor: ink.quiet },
    legend: labels,
    header: labels,
    text: { color: ink.text },
    rule: { color: ink.quiet },
    view: { stroke: "transparent" },
  };
}

const drawn = new Map();

async function draw(figure) {
  const dark = isDark();
  const target = figure.querySelector(".study-chart-drawing");
  const spec = JSON.parse(figure.querySelector("script").textContent);
  try {
    const result = await vegaEmbed(target, spec, {
      mode: "vega-lite",
      renderer: "svg",
      config: look(dark),
      tooltip: { theme: dark ? "dark" : "light" },
      actions: { export: true, source: false, compiled: false, editor: false },
      downloadFileName: "chart",
    });
    drawn.get(figure)?.finalize();
    drawn.set(figure, result);
    figure.dataset.drawn = dark ? "dark" : "light";
  } catch (error) {
    target.textContent = "This chart could not be drawn.";
    console.error("chart:", error);
  }
}

function drawAll() {
  document.querySelectorAll("figure.study-chart").forEach(draw);
}

function start() {
  drawAll();
  let dark = isDark();
  const again = () => {
    if (isDark() !== dark) {
      dark = isDark();
      drawAll();
    }
  };
  new MutationObserver(again).observe(document.documentElement, { attributes: true });
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

if (document.readyState === "loading") {
  document.addEventListener("DOMContentLoaded", start);
} else {
  start();
}
