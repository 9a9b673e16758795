// Keys of every page: search over everything (Ctrl-K), the page's own search (/), shortcuts, and their list (?).
"use strict";
(() => {
  const ROOT = document.body.dataset.root ?? "/"; // of the cluster of this page
  const GO = { d: "", t: "topics", b: "brokers", q: "quorum", c: "changes", r: "reports", p: "plans" };
  for (const letter of Object.keys(GO)) GO[letter] = ROOT + GO[letter];
  const WAIT_MS = 120; // after the last key, before the search
  const NEXT_MS = 1500; // between g and the letter of a page

  const jump = document.querySelector("[data-opens=palette]"); // has what this script says, in the language of the page
  const words = JSON.parse(jump?.dataset.words ?? "{}");

  const dialog = (name, content) => {
    const made = document.createElement("dialog");
    made.setAttribute("aria-label", name);
    made.append(...content);
    made.addEventListener("click", (event) => { if (event.target === made) made.close(); });
    document.body.append(made);
    return made;
  };

  // search

  let palette = null;
  let input = null;
  let list = null;
  let asked = 0;
  let chosen = 0;
  const entries = () => [...list.querySelectorAll("a")];
  const choose = (number) => {
    const all = entries();
    chosen = all.length ? (number + all.length) % all.length : 0;
    all.forEach((each, index) => {
      each.id = `found-${index}`;
      each.setAttribute("role", "option");
      each.setAttribute("aria-selected", String(index === chosen));
      each.tabIndex = -1;
      each.parentElement.setAttribute("role", "presentation");
    });
    if (all.length) {
      input.setAttribute("aria-activedescendant", `found-${chosen}`);
      all[chosen].scrollIntoView({ block: "nearest" });
    } else input.removeAttribute("aria-activedescendant");
  };
  const search = async () => {
    const turn = ++asked;
    try {
      const answer = await fetch(`${ROOT}fragments/search?q=${encodeURIComponent(input.value.slice(0, 249))}`, { redirect: "error" });
      if (turn !== asked || !answer.ok) return; // a newer search is under way
      const found = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById("found");
      list.replaceChildren(...found.children);
      choose(0);
    } catch {
      // no connection: the page says so
    }
  };
  const build = () => {
    const form = document.createElement("form");
    input = document.createElement("input");
    Object.assign(input, { type: "text", autocomplete: "off", placeholder: words.hint, maxLength: 249 });
    for (const [name, value] of [["aria-label", words.jump], ["role", "combobox"], ["aria-expanded", "true"], ["aria-controls", "palette-found"]]) {
      input.setAttribute(name, value);
    }
    form.append(input);
    list = document.createElement("ul");
    Object.assign(list, { className: "found", id: "palette-found" });
    list.setAttribute("role", "listbox");
    list.setAttribute("aria-label", words.results);
    let timer = 0;
    input.addEventListener("input", () => { window.clearTimeout(timer); timer = window.setTimeout(search, WAIT_MS); });
    input.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step) { event.preventDefault(); choose(chosen + step); }
    });
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      entries()[chosen]?.click();
    });
    palette = dialog(words.search, [form, list]);
  };
  const open = () => {
    if (!palette) build();
    if (palette.open) return;
    input.value = "";
    list.replaceChildren();
    palette.showModal();
    input.focus();
    search();
  };

  // the list of shortcuts

  let help = null;
  const shortcuts = () => {
    if (!help) {
      const rows = document.createElement("dl");
      rows.className = "keys";
      const names = [["Ctrl K", words.anywhere], ["/", words.here], ["?", words.list], ["Esc", words.close]];
      for (const [letter, href] of Object.entries(GO)) {
        const link = document.querySelector(`.side nav a[href="${href}"]`);
        if (link) names.push([`g ${letter}`, link.textContent.trim()]);
      }
      for (const [keys, what] of names) {
        const term = document.createElement("dt");
        for (const key of keys.split(" ")) term.append(Object.assign(document.createElement("kbd"), { textContent: key }), " ");
        rows.append(term, Object.assign(document.createElement("dd"), { textContent: what }));
      }
      help = dialog(words.shortcuts, [rows]);
    }
    if (!help.open) help.showModal();
  };

  const isTyping = (target) => target.closest("input, select, textarea, [contenteditable]") !== null;
  let goneAt = -Infinity; // when g was pressed
  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && !event.altKey && event.key.toLowerCase() === "k") {
      event.preventDefault();
      open();
      return;
    }
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || document.querySelector("dialog[open]")) return;
    const now = performance.now();
    if (now - goneAt < NEXT_MS && GO[event.key]) {
      event.preventDefault();
      window.location.assign(GO[event.key]);
    } else if (event.key === "/") {
      const own = document.querySelector("main input[type=search]");
      event.preventDefault();
      own ? own.focus() : open();
    } else if (event.key === "?") shortcuts();
    goneAt = event.key === "g" ? now : -Infinity;
  });
  jump?.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    open();
  });
})();
