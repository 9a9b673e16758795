// Keeps an open page up to date. One event stream carries the state of the quorum (badge and notice) and the stamp of
// the newest metadata. When the stamp differs from the page's, every part with data-live="ADDRESS" is fetched again,
// one fetch at a time, and only the differences are applied, so that focus, selection, caret and scrolling stay.
"use strict";
// A table or text that overflows can be scrolled by keyboard only with the focus, so it gets a tab stop; others do not.
(() => {
  const mark = () => {
    for (const place of document.querySelectorAll(".scroll, pre")) {
      const scrolls = place.scrollWidth > place.clientWidth || place.scrollHeight > place.clientHeight;
      if (!scrolls && place !== document.activeElement) place.removeAttribute("tabindex");
      else if (scrolls && !place.hasAttribute("tabindex")) place.tabIndex = 0;
    }
  };
  mark();
  window.addEventListener("resize", mark);
  document.addEventListener("toggle", mark, true); // <details>
  document.addEventListener("htmx:afterSettle", mark);
  document.addEventListener("refreshed", mark);
})();
(() => {
  const badge = document.getElementById("live");
  if (!badge || !window.EventSource) return;
  const LEAST_MS = 250; // between two fetches during many changes; a single change is fetched at once
  const GRACE_MS = 1500; // a shorter interruption is not reported
  const SILENT_MS = 5000; // the stream sends an event every second
  const RETRY_MS = 2000;
  const OUT_MS = 15000;
  const HIDDEN_MS = 30000; // a page in the background closes its connection after this time

  // the frame

  const offset = badge.querySelector("[data-offset]");
  const leader = badge.querySelector("[data-leader]");
  const words = JSON.parse(badge.dataset.words); // in the language of the page, with {} for a value
  const say = (text, ...values) => values.reduce((said, value) => said.replace("{}", () => value), text);
  const age = badge.querySelector("[data-age]");
  let stamp = badge.dataset.stamp;
  let state = badge.dataset.state;
  let confirmed = performance.now() - Number(badge.dataset.ageMs || 0);
  let heard = performance.now();
  let lostSince = null;
  let isOut = false;
  let isPaused = false; // by the reader: the quorum is still followed, the parts stay as they are

  const number = (value) => Number(value).toLocaleString("en-US").replaceAll(",", "\u202f");
  const utc = (moment) => moment.toISOString().slice(0, 19).replace("T", " ") + " UTC";
  const notify = (id, text, tone) => { // screen readers announce an alert that changes: keep equal text
    const place = document.getElementById(id);
    let notice = place.firstElementChild;
    if (!text) { place.replaceChildren(); return; }
    if (!notice) notice = place.appendChild(document.createElement("div"));
    notice.className = "notice " + tone;
    notice.setAttribute("role", tone === "bad" ? "alert" : "status");
    if (notice.textContent !== text) notice.textContent = text;
  };
  const show = () => {
    const seconds = (performance.now() - confirmed) / 1000;
    age.textContent = say(words.ago, say(words.s, seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)));
    badge.dataset.state = lostSince ? "lost" : isPaused ? "paused" : state === "live" && seconds >= 3 ? "stale" : state;
    for (const each of document.querySelectorAll("main time")) {
      const text = since((Date.now() - Date.parse(each.dateTime)) / 1000);
      if (each.textContent !== text) each.textContent = text;
    }
  };
  const since = (seconds) => { // the same rule as `since` of app/pages/frame.py
    if (Math.abs(seconds) < 5) return words.now;
    for (const [unit, length, least] of [["d", 86400, 2], ["h", 3600, 2], ["min", 60, 1], ["s", 1, 1]]) {
      const time = say(words[unit], Math.floor(Math.abs(seconds) / length));
      if (Math.abs(seconds) >= least * length) return say(seconds > 0 ? words.ago : words.ahead, time);
    }
  };
  const lost = () => {
    lostSince ??= new Date(Date.now() - (performance.now() - heard));
    show();
  };
  const sayLost = () => {
    notify("connection-notice", say(words.lost, utc(lostSince)), "bad");
  };
  let goneText = "";
  const gone = (what) => {
    if (what.text === goneText) return;
    goneText = what.text;
    const notice = document.createElement("div");
    const link = document.createElement("a");
    notice.className = "notice bad";
    notice.setAttribute("role", "alert");
    link.href = what.url;
    link.textContent = what.label;
    notice.append(what.text + " ", link);
    document.getElementById("body").replaceChildren(notice);
  };
  const take = (data) => {
    heard = performance.now();
    if (lostSince) {
      lostSince = null;
      isOut = false;
      notify("connection-notice", "", "");
    }
    state = data.state;
    if (data.age_ms !== null) confirmed = heard - data.age_ms;
    if (data.offset !== null) offset.textContent = number(data.offset);
    leader.textContent = data.leader;
    notify("quorum-notice", data.notice, data.tone);
    for (const value of document.querySelectorAll("[data-live-value]")) {
      value.textContent = number(data[value.dataset.liveValue]);
    }
    show();
    if (data.gone) gone(data.gone);
    else if (data.stamp !== stamp) {
      stamp = data.stamp;
      refresh();
    }
  };

  // the parts

  const fetching = new Set(); // addresses in flight
  const again = new Set(); // addresses to fetch once more, after a change in the meantime
  const failed = new Set(); // addresses with a server error
  const fetchedAt = new Map();
  let pressed = false;
  let held = false; // a refresh is due while a mouse button is down, when it would lose the click

  const allParts = () => [...document.querySelectorAll("[data-live]")];
  const parts = (address) => allParts().filter((part) => part.dataset.live === address);
  const refresh = () => {
    if (pressed || isPaused) { held = true; return; }
    for (const address of new Set(allParts().map((part) => part.dataset.live))) renew(address);
  };
  const renew = async (address) => {
    if (fetching.has(address)) { again.add(address); return; }
    fetching.add(address);
    const wait = (fetchedAt.get(address) ?? -LEAST_MS) + LEAST_MS - performance.now();
    if (wait > 0) await new Promise((resolve) => window.setTimeout(resolve, wait));
    fetchedAt.set(address, performance.now());
    again.delete(address);
    const wanted = parts(address);
    try {
      const answer = wanted.length ? await fetch(address, { headers: { "X-Live": "1" }, redirect: "error" }) : null;
      if (answer?.ok) {
        put(wanted, new DOMParser().parseFromString(await answer.text(), "text/html"));
        if (failed.delete(address) && !failed.size) notify("part-notice", "", "");
      } else if (answer && answer.status >= 500) {
        if (!failed.size) notify("part-notice", say(words.broken, answer.status, utc(new Date())), "bad");
        failed.add(address);
        window.setTimeout(() => renew(address), RETRY_MS);
      }
    } catch {
      // no connection: the stream reports it, and refreshes everything when it is back
    } finally {
      fetching.delete(address);
    }
    if (again.has(address)) renew(address);
  };
  const put = (wanted, found) => {
    if (pressed || isPaused) { held = true; return; }
    for (const part of wanted) {
      const newer = part.isConnected && part.id && found.getElementById(part.id); // a search may have replaced the part
      if (newer) {
        morph(part, newer);
        window.htmx?.process(part);
      }
    }
    document.dispatchEvent(new Event("refreshed"));
  };

  // Make `old` equal to `newer`; change only what differs.
  const key = (node) => (node.nodeType === Node.ELEMENT_NODE ? node.id || node.dataset.key || "" : "");
  const alike = (one, other) => one.nodeName === other.nodeName && key(one) === key(other);
  const morph = (old, newer) => {
    if (old.isEqualNode(newer)) return;
    for (const { name } of [...old.attributes]) {
      const isOurs = name === "tabindex" || (name === "open" && old.nodeName === "DETAILS");
      if (!newer.hasAttribute(name) && !isOurs) old.removeAttribute(name);
    }
    for (const { name, value } of newer.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const kept = new Map([...newer.children].filter(key).map((child) => [key(child), child]));
    for (const child of [...old.children]) if (key(child) && !kept.has(key(child))) child.remove();
    const keyed = new Map([...old.children].filter(key).map((child) => [key(child), child]));
    let next = old.firstChild;
    for (const child of [...newer.childNodes]) {
      let match = key(child) ? keyed.get(key(child)) : next;
      while (!key(child) && match && !alike(match, child)) match = key(match) ? null : match.nextSibling;
      if (!match || !alike(match, child)) {
        old.insertBefore(document.importNode(child, true), next);
        continue;
      }
      while (next && next !== match && !key(next)) { const passed = next; next = next.nextSibling; passed.remove(); }
      if (match === next) next = next.nextSibling;
      else old.insertBefore(match, next);
      if (match.nodeType === Node.ELEMENT_NODE) morph(match, child);
      else if (match.data !== child.data) retype(match, child.data);
    }
    while (next) { const passed = next; next = next.nextSibling; passed.remove(); }
  };
  const retype = (text, data) => { // a selection in the unchanged text stays
    const most = Math.min(text.data.length, data.length);
    let start = 0;
    while (start < most && text.data[start] === data[start]) start++;
    let end = 0;
    while (end < most - start && text.data[text.data.length - 1 - end] === data[data.length - 1 - end]) end++;
    text.replaceData(start, text.data.length - end - start, data.slice(start, data.length - end));
  };

  // a search replaces a part: it may have been answered before a change that came while it was under way

  const stampAt = new WeakMap(); // the page's stamp when a request of htmx was sent
  document.addEventListener("htmx:beforeRequest", (event) => stampAt.set(event.detail.xhr, stamp));
  document.addEventListener("htmx:afterSwap", (event) => {
    if (stampAt.get(event.detail.xhr) !== stamp) refresh();
  });

  const release = () => {
    pressed = false;
    window.setTimeout(() => { // after the click
      if (!pressed && !isPaused && held) { held = false; refresh(); }
    });
  };
  const pause = document.getElementById("pause");
  pause.hidden = false;
  pause.addEventListener("click", () => {
    isPaused = !isPaused;
    pause.setAttribute("aria-pressed", String(isPaused));
    pause.querySelector("use").setAttribute("href", pause.querySelector("use").getAttribute("href").replace(/#.*/, isPaused ? "#play" : "#pause"));
    pause.title = isPaused ? words.resume : words.pause;
    if (!isPaused && held) { held = false; refresh(); }
    show();
  });
  document.addEventListener("pointerdown", (event) => { pressed = event.button === 0; }, true);
  document.addEventListener("pointerup", release, true);
  document.addEventListener("pointercancel", release, true);

  // the stream

  let source = null;
  let hiddenAt = null;
  const close = () => { source?.close(); source = null; };
  const open = () => {
    close();
    source = new EventSource(badge.dataset.source);
    source.addEventListener("state", (event) => take(JSON.parse(event.data)));
    source.onerror = () => {
      lost();
      if (source?.readyState === EventSource.CLOSED) refused();
    };
  };
  const refused = async () => { // the browser does not retry after an answer that is not a stream
    close();
    let status = 0;
    try {
      const asking = new AbortController();
      status = (await fetch(badge.dataset.source, { signal: asking.signal })).status;
      asking.abort();
    } catch {
      status = 0;
    }
    isOut = status === 401 || status === 403;
    if (isOut) notify("connection-notice", words.out, "bad");
    window.setTimeout(open, isOut ? OUT_MS : 1000); // the user may log in on another page
  };
  open();
  window.setInterval(() => {
    show();
    const now = performance.now();
    if (lostSince && !isOut && Date.now() - lostSince > GRACE_MS) sayLost();
    if (document.hidden) {
      hiddenAt ??= now;
      if (source && now - hiddenAt > HIDDEN_MS) close();
      return;
    }
    if (source && now - heard > SILENT_MS) { // no event and no error: the connection is dead
      lost();
      heard = now - SILENT_MS + 1000; // retry, then wait a second
      open();
    }
    for (const part of document.querySelectorAll("[data-live-every]")) {
      const due = (fetchedAt.get(part.dataset.live) ?? 0) + 1000 * Number(part.dataset.liveEvery) - 100;
      if (source && now >= due) pressed || isPaused ? (held = true) : renew(part.dataset.live);
    }
  }, 500);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    hiddenAt = null;
    heard = performance.now();
    if (!source) open();
  });
  window.addEventListener("pagehide", close);
  window.addEventListener("pageshow", (event) => { if (event.persisted) open(); });
})();
