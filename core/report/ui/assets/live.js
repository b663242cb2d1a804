"use strict";
(() => {
  const ids = new URLSearchParams(location.search).getAll("id");
  const query = ids.map(id => "id=" + encodeURIComponent(id)).join("&");
  const status = document.getElementById("live-status"), tools = document.getElementById("live-tools");
  const el = (tag, props, ...children) => { const e = Object.assign(document.createElement(tag), props); e.append(...children); return e; };

  // New data at most once a second: a watched run should not notice it.
  // The tables follow more slowly than the charts.
  const pause = 900, slowPause = 10000;
  let last = 0, lastText = 0, timer = 0, textTimer = 0, busy = false;
  const refresh = async () => {
    timer = 0;
    if (busy) { later(pause); return; }
    busy = true;
    last = Date.now();
    const wantText = last - lastText >= slowPause;
    if (wantText) lastText = last;
    try {
      const [data, html] = await Promise.all([fetch("/data?" + query + "&have=" + encodeURIComponent(window.trainctlPage.have())), wantText ? fetch("/text?" + query) : null]);
      if (!data.ok) throw new Error(await data.text());
      if (!window.trainctlPage.update(await data.json(), html ? await html.text() : "")) location.reload();
      status.textContent = "Following; last change at " + new Date().toLocaleTimeString();
      if (!wantText && !textTimer) textTimer = setTimeout(() => { textTimer = 0; later(0); }, lastText + slowPause - Date.now());
    } catch (e) { status.textContent = "No answer: " + e.message; } finally { busy = false; }
  };
  const later = ms => { timer = timer || setTimeout(refresh, ms); };
  const source = new EventSource("/events?" + query);
  source.addEventListener("changed", () => later(Math.max(0, last + pause - Date.now())));
  source.onopen = () => { status.textContent = "Following"; };
  source.onerror = () => { status.textContent = "The connection is lost; trying again. If trainctl ui was started again, open the address that it printed."; };

  const post = async (path, id, out) => {
    const answer = await fetch(path, {method: "POST", body: new URLSearchParams({id})}).catch(e => ({ok: false, text: async () => e.message}));
    out.value = answer.ok ? "The run was signalled." : await answer.text();
  };

  // Each open box has a stream of its own. Browsers allow six connections to a server, so opening
  // one more box closes the one that was opened first.
  const most = 4, streams = new Map();
  const unfollow = box => { if (streams.has(box)) streams.get(box).close(); streams.delete(box); };
  const follow = (box, id, rank, pre) => {
    unfollow(box);
    pre.textContent = "";
    const logs = new EventSource("/logs?id=" + encodeURIComponent(id) + (rank === "" ? "" : "&rank=" + rank));
    streams.set(box, logs);
    if (streams.size > most) streams.keys().next().value.open = false;
    logs.onopen = () => { pre.textContent = ""; };
    logs.addEventListener("lines", e => {
      const bottom = pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
      for (const l of JSON.parse(e.data)) pre.append(el("span", {textContent: `${l.time || ""} [rank ${l.rank}] ${l.text}\n`}));
      while (pre.childNodes.length > 2000) pre.firstChild.remove();
      if (bottom) pre.scrollTop = pre.scrollHeight;
    });
  };

  const add = async id => {
    const answer = await fetch("/state?id=" + encodeURIComponent(id));
    if (!answer.ok) return;
    const state = await answer.json(), out = el("output", {});
    const save = el("button", {type: "button", textContent: "Save a checkpoint of " + id, disabled: !!state.why});
    const stop = el("button", {type: "button", textContent: "Save and stop " + id, disabled: !!state.why});
    save.onclick = () => post("/save", id, out);
    stop.onclick = () => { if (confirm("Stop " + id + "? It saves a checkpoint first.")) post("/stop", id, out); };
    if (state.why) out.value = state.why;
    tools.append(el("p", {}, save, " ", stop, " ", out));
    if (!state.ranks.length) return;
    const pre = el("pre", {tabIndex: 0, className: "log"});
    pre.setAttribute("aria-label", "Log of " + id);
    pre.setAttribute("role", "log");
    const choose = el("select", {}, el("option", {value: "", textContent: "all ranks"}), ...state.ranks.map(r => el("option", {value: r, textContent: "rank " + r})));
    const box = el("details", {}, el("summary", {textContent: "Logs of " + id}), el("label", {}, "Rank ", choose), pre);
    choose.onchange = () => follow(box, id, choose.value, pre);
    box.addEventListener("toggle", () => { if (box.open) follow(box, id, choose.value, pre); else unfollow(box); });
    tools.append(box);
  };
  ids.reduce((before, id) => before.then(() => add(id)), Promise.resolve());
})();
