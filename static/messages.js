// The live tail of the messages page: new records are put above those of the window, at most ROWS_MAX in all. A pause
// closes the stream; it is resumed where it was, by the cursor of its last event.
"use strict";
(() => {
  const panel = document.getElementById("messages");
  if (!panel || !window.EventSource) return;
  const ROWS_MAX = 500;
  const button = document.getElementById("tail-button");
  const state = document.getElementById("tail-state");
  const rows = document.getElementById("rows");
  let source = null;
  let cursor = "";
  let shown = 0;
  let passedOver = 0;
  document.getElementById("tail").hidden = false;

  const words = JSON.parse(panel.dataset.words);
  const number = (value) => Number(value).toLocaleString("en-US").replaceAll(",", "\u202f");
  const tell = (text) => { if (state.textContent !== text) state.textContent = text; };
  const close = () => { source?.close(); source = null; };
  const label = () => {
    button.textContent = source ? words.pause : cursor ? words.resume : words.start;
    button.setAttribute("aria-pressed", String(Boolean(source)));
  };
  const report = (errors) => {
    const found = (shown === 1 ? words.one : words.many).replace("{}", number(shown));
    const skipped = passedOver ? [words.over.replace("{}", number(passedOver))] : [];
    tell([found, ...skipped, ...errors].join(words.separator));
  };
  const take = (event) => {
    const data = JSON.parse(event.data);
    cursor = event.lastEventId || cursor;
    shown += data.count;
    passedOver += data.passed_over;
    if (data.rows) {
      const found = new DOMParser().parseFromString(`<table><tbody>${data.rows}</tbody></table>`, "text/html");
      rows.prepend(...[...found.querySelectorAll("tbody > tr")].map((row) => document.importNode(row, true)));
      while (rows.rows.length > ROWS_MAX) rows.lastElementChild.remove();
      document.getElementById("no-rows")?.remove();
    }
    report(data.errors);
  };
  const open = () => {
    const address = panel.dataset.tail;
    const from = cursor ? `${address.includes("?") ? "&" : "?"}cursor=${encodeURIComponent(cursor)}&direction=newer` : "";
    source = new EventSource(address + from);
    source.addEventListener("records", take);
    source.addEventListener("failed", (event) => {
      close();
      tell(JSON.parse(event.data));
      label();
    });
    source.onerror = () => {
      if (source?.readyState !== EventSource.CLOSED) return tell(words.lost);
      close();
      tell(words.refused);
      label();
    };
    label();
  };
  button.addEventListener("click", () => {
    if (source) {
      close();
      label();
    } else {
      open();
    }
  });
  window.addEventListener("pagehide", close);
})();
