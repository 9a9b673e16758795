// Selected rows of a table: ranges with Shift, all that are shown, and a selection that stays while the table is renewed,
// searched and paged. It is kept for the tab. Without this script the check boxes and buttons of the page work as they are.
"use strict";
(() => {
  const bar = document.querySelector("form[data-selection]");
  const done = document.querySelector("[data-selection-done]");
  const keep = (id, values) => {
    try {
      if (values.length) sessionStorage.setItem(`selected:${id}`, JSON.stringify(values));
      else sessionStorage.removeItem(`selected:${id}`);
    } catch {
      // the browser keeps nothing: the selection lasts as long as the page
    }
  };
  const kept = (id) => {
    try {
      const found = JSON.parse(sessionStorage.getItem(`selected:${id}`) ?? "[]");
      return Array.isArray(found) ? found.filter((each) => typeof each === "string") : [];
    } catch {
      return [];
    }
  };
  if (done) keep(done.dataset.selectionDone, []);
  if (!bar) return;

  const chosen = new Set(kept(bar.id));
  const count = bar.querySelector("[data-count]");
  const words = JSON.parse(bar.dataset.words); // in the language of the page, with {} for a number
  const shown = bar.querySelector("[data-shown]");
  const allShown = shown.querySelector("input");
  const allMatching = bar.elements.namedItem("all");
  const clear = bar.querySelector("[data-clear]");
  const boxes = () => [...bar.elements].filter((each) => each.type === "checkbox" && each.name === "item");
  let last = null; // the value of the box that was clicked last

  const show = () => {
    const part = document.getElementById(bar.dataset.selection);
    if (part && part.dataset.filter !== bar.elements.namedItem("filter").value) {
      bar.elements.namedItem("filter").value = part.dataset.filter;
      allMatching.checked = false; // it meant another search
    }
    if (part) bar.querySelector("[data-matching]").textContent = Number(part.dataset.matching).toLocaleString("en-US").replaceAll(",", "\u202f");
    const all = boxes();
    for (const box of all) box.checked = chosen.has(box.value);
    const here = all.filter((box) => box.checked).length;
    const elsewhere = chosen.size - here;
    const text = (elsewhere ? words.elsewhere : words.chosen).replace("{}", chosen.size).replace("{}", elsewhere);
    if (count.textContent !== text) count.textContent = text;
    shown.hidden = !all.length;
    allShown.checked = all.length > 0 && here === all.length;
    allShown.indeterminate = here > 0 && here < all.length;
    clear.hidden = !chosen.size;
    bar.classList.toggle("some", chosen.size > 0 || allMatching.checked);
    for (const button of bar.querySelectorAll("button[formaction]")) button.disabled = !chosen.size && !allMatching.checked;
  };
  const put = (box, isChosen) => (isChosen ? chosen.add(box.value) : chosen.delete(box.value));
  const changed = () => { keep(bar.id, [...chosen]); show(); };

  document.addEventListener("click", (event) => {
    const all = boxes();
    const at = all.indexOf(event.target);
    if (at < 0) return;
    const from = event.shiftKey ? all.findIndex((box) => box.value === last) : -1;
    const range = from < 0 ? [event.target] : all.slice(Math.min(from, at), Math.max(from, at) + 1);
    for (const box of range) put(box, event.target.checked);
    last = event.target.value;
    changed();
  });
  allShown.addEventListener("change", () => {
    for (const box of boxes()) put(box, allShown.checked);
    changed();
  });
  allMatching.addEventListener("change", show);
  clear.addEventListener("click", () => {
    chosen.clear();
    allMatching.checked = false;
    changed();
    allShown.focus(); // this button is hidden now
  });
  bar.addEventListener("submit", () => {
    show(); // a search that was answered just now has put new boxes
    for (const old of bar.querySelectorAll("[data-kept]")) old.remove();
    const here = new Set(boxes().map((box) => box.value));
    for (const value of allMatching.checked ? [] : chosen) {
      if (here.has(value)) continue;
      const field = Object.assign(document.createElement("input"), { type: "hidden", name: "item", value });
      field.dataset.kept = "";
      bar.append(field);
    }
  });
  document.addEventListener("refreshed", show);
  document.addEventListener("htmx:afterSettle", show);
  window.addEventListener("pageshow", show);
  show();
})();
