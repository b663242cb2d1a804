"use strict";
(() => {
  const filter = document.getElementById("filter"), list = document.getElementById("list"), count = document.getElementById("count");
  const show = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean), rows = [...list.querySelectorAll("tr[data-id]")];
    for (const row of rows) row.hidden = !words.every(w => row.textContent.toLowerCase().includes(w));
    count.textContent = `${rows.filter(r => !r.hidden).length} of ${rows.length} runs`;
  };
  filter.addEventListener("input", show);
  show();
  // The list follows its runs, but never while somebody works in it.
  const again = async () => {
    if (document.hidden || list.contains(document.activeElement) || list.querySelector("details[open]")) return;
    const answer = await fetch("/").catch(() => null);
    if (!answer || !answer.ok) return;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").querySelector("#list tbody");
    const ticked = new Set([...list.querySelectorAll("input:checked")].map(i => i.value));
    if (!fresh || list.contains(document.activeElement)) return;
    list.tBodies[0].replaceWith(fresh);
    for (const i of list.querySelectorAll("input[name=id][type=checkbox]")) i.checked = ticked.has(i.value);
    show();
  };
  setInterval(again, 2000);
})();
