"use strict";
(() => {
  const panel = document.getElementById("regressions");
  const graph = document.querySelector("svg.graph");
  if (!panel || !graph) return;
  const articles = [...panel.querySelectorAll("article")];

  // Show the regression of one variable and, if an edge was chosen, the curve over that cause.
  function show(variable, cause) {
    for (const article of articles) article.classList.toggle("chosen", article.dataset.variable === variable);
    for (const link of graph.querySelectorAll("a")) {
      const chosen = link.dataset.variable === variable && (link.dataset.cause === cause || link.dataset.cause === undefined && cause === undefined);
      link.classList.toggle("chosen", chosen);
    }
    const article = articles.find((one) => one.dataset.variable === variable);
    const select = article?.querySelector("select[data-group]");
    if (select && cause !== undefined && [...select.options].some((option) => option.value === `cause-${cause}`)) {
      select.value = `cause-${cause}`;
      select.dispatchEvent(new Event("change", { bubbles: true }));
    }
    // A figure that was drawn while hidden had no width to adapt to.
    window.dispatchEvent(new Event("resize"));
    return article;
  }

  document.addEventListener("click", (event) => {
    const link = event.target.closest("svg.graph a, #edges-table a");
    if (!link) return;
    event.preventDefault();
    const variable = link.dataset.variable ?? link.getAttribute("href").replace("#variable-", "");
    show(variable, link.dataset.cause)?.scrollIntoView({ block: "nearest", behavior: "smooth" });
  });

  panel.classList.add("one-at-a-time");
  const wanted = location.hash.startsWith("#variable-") ? location.hash.replace("#variable-", "") : panel.dataset.first;
  show(wanted);
})();
