// Keeps the page in step with the metadata log: one event stream, a badge that says how old the page is, and a "live"
// event on every element that asked for it (hx-trigger="live") when the cluster changed. Such an element is not replaced
// while a mouse button is down: the click would be lost.
"use strict";
(() => {
  const badge = document.getElementById("live");
  if (!badge || !window.EventSource) return;
  const offset = badge.querySelector("[data-offset]");
  const age = badge.querySelector("[data-age]");
  let seen = performance.now() - Number(badge.dataset.ageMs || 0);
  let connected = false;
  let pending = 0;
  let pressed = false;
  const held = new Set();

  const number = (value) => Number(value).toLocaleString("en-US").replaceAll(",", "\u202f");
  const show = () => {
    const seconds = (performance.now() - seen) / 1000;
    age.textContent = seconds < 10 ? seconds.toFixed(1) + " s ago" : Math.round(seconds) + " s ago";
    badge.dataset.state = !connected ? "lost" : seconds < 3 ? "live" : "stale";
  };
  const refresh = () => {
    if (pending) return;
    pending = window.setTimeout(() => {
      pending = 0;
      for (const part of document.querySelectorAll("[data-live]")) {
        if (!part.contains(document.activeElement) || document.activeElement === document.body) window.htmx.trigger(part, "live");
      }
    }, 250);
  };
  const source = new EventSource(badge.dataset.source);
  source.onopen = () => { connected = true; show(); };
  source.onerror = () => { connected = false; show(); };
  source.addEventListener("offset", (event) => {
    const state = JSON.parse(event.data);
    connected = true;
    seen = performance.now() - state.age_ms;
    offset.textContent = number(state.offset);
    for (const value of document.querySelectorAll("[data-live-value]")) value.textContent = number(state[value.dataset.liveValue]);
    show();
    if (state.changed) refresh();
  });
  const release = () => {
    pressed = false;
    window.setTimeout(() => { // the click comes first
      for (const part of held) window.htmx.trigger(part, "live");
      held.clear();
    });
  };
  document.addEventListener("pointerdown", (event) => { pressed = event.button === 0; }, true);
  document.addEventListener("pointerup", release, true);
  document.addEventListener("pointercancel", release, true);
  document.addEventListener("htmx:beforeSwap", (event) => {
    const part = event.detail.requestConfig.elt;
    if (!pressed || !part.matches("[hx-trigger*=live]")) return;
    event.detail.shouldSwap = false;
    held.add(part);
  });
  window.setInterval(show, 500);
  window.addEventListener("pagehide", () => source.close());
})();
