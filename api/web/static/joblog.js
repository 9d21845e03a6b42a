// The page works without this.  With it: parts marked data-live follow the log, keys, theme, a question before a cancel.
"use strict";
(() => {
  const kept = (name, value) => { try { return value === undefined ? localStorage.getItem(name) : localStorage.setItem(name, value); } catch { return null; } };
  const said = document.getElementById("said");
  document.documentElement.classList.add("js");
  const rest = (ms) => new Promise((done) => setTimeout(done, ms));

  // theme: auto, light, dark
  const theme = document.getElementById("theme");
  const themes = ["auto", "light", "dark"];
  const paint = () => {
    const chosen = kept("theme") || "auto";
    if (chosen === "auto") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = chosen;
    if (theme) { theme.hidden = false; theme.textContent = `theme: ${chosen}`; }
  };
  const turn = () => { kept("theme", themes[(themes.indexOf(kept("theme") || "auto") + 1) % 3]); paint(); };
  if (theme) theme.addEventListener("click", turn);
  paint();

  // live: wait for the log to move, then take the new parts of this very page; at most once a second, never while hidden
  const parts = () => [...document.querySelectorAll("[data-live]")];
  const live = document.getElementById("live");
  let on = kept("live") ? kept("live") === "on" : !matchMedia("(prefers-reduced-motion: reduce)").matches;
  const show = () => { if (live) { live.hidden = !parts().length; live.setAttribute("aria-pressed", on); live.textContent = `live: ${on ? "on" : "off"}`; } };
  const flip = () => { on = !on; kept("live", on ? "on" : "off"); show(); };
  if (live) live.addEventListener("click", flip);
  show();

  // what is alike stays the same element, so focus, typed text, ticks and opened details stay where they are
  const key = (one) => one.dataset && (one.id || one.dataset.key);
  const alike = (one, other) => one.nodeName === other.nodeName && key(one) === key(other);
  const morph = (old, fresh) => {
    if (old.isEqualNode(fresh)) return;
    if (old.nodeType !== Node.ELEMENT_NODE) { old.data = fresh.data; return; }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const keys = new Set([...fresh.children].map(key));
    for (const one of [...old.children]) if (!keys.has(key(one))) one.remove();
    let next = old.firstChild;
    for (const child of [...fresh.childNodes]) {
      let found = next;
      while (found && !alike(found, child)) found = found.nextSibling;
      if (found && found !== next) old.insertBefore(found, next);
      if (found) morph(found, child); else found = old.insertBefore(child, next);
      next = found.nextSibling;
    }
    while (next) { const gone = next; next = next.nextSibling; gone.remove(); }
  };
  const refresh = async () => {
    const answer = await fetch(location.href, { headers: { accept: "text/html" } });
    if (!answer.ok) throw answer;
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of parts()) {
      const next = fresh.getElementById(part.id);
      if (next && on) morph(part, next);
    }
    document.body.dataset.place = fresh.body.dataset.place;
    document.dispatchEvent(new Event("refreshed"));
  };
  let settled = true; // else something has just happened, which views may not show yet
  const moved = async () => {
    const answer = await fetch(`/api/v1/feed?limit=1&wait=${settled ? 15 : 1}&after=${document.body.dataset.place}`);
    if (answer.status === 403) return rest(5000); // may see jobs, not the log
    if (answer.status === 409) return true; // another log stands there now: so does another page
    if (!answer.ok) throw answer;
    return (await answer.json()).items.length > 0;
  };
  const follow = async () => {
    for (let lost = false; ;) {
      try {
        if (on && !document.hidden && document.body.dataset.place && parts().length) {
          settled = !await moved();
          await refresh();
        }
        if (lost) said.textContent = "Live updates go on.";
        lost = false;
        await rest(1000);
      } catch (error) {
        if (error.status === 401) { said.textContent = "You are signed out: nothing here is live any more."; return; }
        if (!lost) said.textContent = "Live updates stopped; retrying.";
        lost = true;
        await rest(3000);
      }
    }
  };
  if (parts().length) follow();

  // a question before what is final
  document.addEventListener("submit", (event) => {
    const text = event.submitter && event.submitter.dataset.confirm;
    if (text && !confirm(text)) event.preventDefault();
  });

  // many rows: a box for all of them, how many are ticked; the slider says where it is and goes there
  const every = document.getElementById("every"), ticked = document.getElementById("ticked");
  const boxes = () => [...document.querySelectorAll("[name=job][form=bulk]")];
  const tell = () => {
    const count = boxes().filter((one) => one.checked).length;
    ticked.textContent = count ? `${count} ticked` : "";
    every.checked = count > 0 && count === boxes().length;
  };
  if (every) {
    every.addEventListener("change", () => { for (const one of boxes()) one.checked = every.checked; tell(); });
    document.addEventListener("change", (event) => { if (event.target.name === "job") tell(); });
    document.addEventListener("refreshed", tell);
    tell();
  }
  const time = document.querySelector("[data-time]");
  if (time) {
    time.addEventListener("input", () => { time.form.querySelector("output").textContent = Number(time.value).toLocaleString("en"); });
    time.addEventListener("change", () => time.form.requestSubmit());
  }

  // keys: / search, j k rows, Enter opens, g + letter goes, r live, t theme, ? help
  let after = "";
  const step = (by) => {
    const rows = [...document.querySelectorAll("[data-row] a")];
    const at = rows.findIndex((one) => one.closest("[data-row]").contains(document.activeElement));
    const next = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
    if (next) next.focus();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    const go = after === "g" && document.querySelector(`a[data-key="${CSS.escape(event.key)}"]`);
    after = event.key;
    const search = document.querySelector("[data-search]");
    if (go) location.assign(go.href);
    else if (event.key === "/" && search) search.focus();
    else if (event.key === "j") step(1);
    else if (event.key === "k") step(-1);
    else if (event.key === "x") { const row = document.activeElement.closest("[data-row]"), box = row && row.querySelector("[name=job]"); if (box) box.click(); }
    else if (event.key === "[" || event.key === "]") { if (time) { event.key === "[" ? time.stepDown() : time.stepUp(); time.form.requestSubmit(); } }
    else if (event.key === "r") flip();
    else if (event.key === "t") turn();
    else if (event.key === "?") said.textContent = "Keys: / search, j and k rows, x ticks, Enter opens, [ and ] step in time, g then o j q w a r f p s d screens, r live, t theme.";
    else return;
    event.preventDefault();
  });
})();
