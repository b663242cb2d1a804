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
  // The list follows its runs, but never while somebody works in it, and the slower the longer it is: training
  // on this machine should not notice.
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
  const follow = async () => {
    const began = performance.now();
    await again();
    setTimeout(follow, Math.max(2000, 200 * (performance.now() - began)));
  };
  setTimeout(follow, 2000);
})();
