/** Buttons that copy the text of another element, or the whole address of a link. */
export function startCopying() {
  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy], [data-copy-link]");
    if (!button) return;
    const source = document.querySelector(button.dataset.copy ?? button.dataset.copyLink);
    const text = button.dataset.copyLink ? source.href : source.textContent;
    const before = button.textContent;
    button.textContent = (await copied(text, source)) ? "Copied" : "Press Ctrl+C";
    document.getElementById("announce").textContent = button.textContent;
    setTimeout(() => {
      button.textContent = before;
    }, 1600);
  });
}

/** Tells whether the text is on the clipboard; where that is not allowed the text is selected instead. */
async function copied(text, source) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const selection = getSelection();
    selection.removeAllRanges();
    const range = document.createRange();
    range.selectNodeContents(source);
    selection.addRange(range);
    return false;
  }
}
