const START = "[START_ENT]";
const END = "[END_ENT]";

/**
 * The text of entity linking: a plain text area under which the marked mentions shine through, so that selecting a
 * name marks it. What is sent is the text with marks, as without scripts.
 */
export function startMentions() {
  const editor = document.getElementById("mention-editor");
  if (editor) new MentionEditor(editor);
}

class MentionEditor {
  constructor(editor) {
    this.area = editor.querySelector("textarea");
    const parsed = parse(this.area.value);
    this.text = parsed.text;
    this.spans = parsed.spans;
    this.area.value = this.text;
    this.area.removeAttribute("name");
    this.build(editor);
    this.area.addEventListener("input", () => this.edited());
    this.area.addEventListener("pointerup", () => setTimeout(() => this.markSelection()));
    this.area.addEventListener("select", () => this.showButton());
    this.area.addEventListener("keyup", () => this.showButton());
    this.area.form.addEventListener("formdata", (event) => event.formData.set("text", this.marked()));
    this.area.form.addEventListener("submit", (event) => this.check(event));
    new ResizeObserver(() => this.fit()).observe(this.area);
    this.render();
  }

  build(editor) {
    const stack = document.createElement("div");
    stack.className = "mention-stack";
    this.area.before(stack);
    this.backdrop = document.createElement("div");
    this.backdrop.className = "input input--text mention-stack__backdrop";
    this.backdrop.setAttribute("aria-hidden", "true");
    stack.append(this.backdrop, this.area);
    this.chips = document.createElement("ul");
    this.chips.className = "chips";
    this.chips.setAttribute("aria-label", "Marked mentions");
    this.button = document.createElement("button");
    this.button.type = "button";
    this.button.className = "button button--quiet mention-button";
    this.button.addEventListener("click", () => this.markSelection());
    const row = document.createElement("div");
    row.className = "chip-row";
    row.append(this.chips, this.button);
    editor.append(row);
  }

  /** Moves the spans with the text around them; a mention that was written into is no mention any more. */
  edited() {
    const before = this.text;
    const after = this.area.value;
    let head = 0;
    const most = Math.min(before.length, after.length);
    while (head < most && before[head] === after[head]) head += 1;
    let tail = 0;
    while (tail < most - head && before[before.length - 1 - tail] === after[after.length - 1 - tail]) tail += 1;
    const shift = after.length - before.length;
    const changedEnd = before.length - tail;
    this.spans = this.spans
      .filter(({ start, end }) => end <= head || start >= changedEnd)
      .map((span) => (span.start >= changedEnd ? { start: span.start + shift, end: span.end + shift } : span));
    this.text = after;
    this.render();
  }

  selected() {
    const value = this.area.value;
    let { selectionStart: start, selectionEnd: end } = this.area;
    while (start < end && /\s/.test(value[start])) start += 1;
    while (end > start && /\s/.test(value[end - 1])) end -= 1;
    return { start, end };
  }

  markSelection() {
    const span = this.selected();
    if (span.start >= span.end) return;
    this.spans = this.spans.filter((other) => other.end <= span.start || other.start >= span.end);
    this.spans.push(span);
    this.spans.sort((a, b) => a.start - b.start);
    this.render();
    document.getElementById("announce").textContent = `Marked: ${this.text.slice(span.start, span.end)}`;
  }

  unmark(span) {
    this.spans = this.spans.filter((other) => other !== span);
    this.render();
    this.area.focus();
  }

  marked() {
    let marked = "";
    let done = 0;
    for (const { start, end } of this.spans) {
      marked += `${this.text.slice(done, start)}${START} ${this.text.slice(start, end)} ${END}`;
      done = end;
    }
    return marked + this.text.slice(done);
  }

  check(event) {
    if (this.spans.length || !this.text.trim()) return;
    event.preventDefault();
    this.area.setCustomValidity("Select a name in the text to mark it, then send.");
    this.area.reportValidity();
  }

  showButton() {
    const { start, end } = this.selected();
    const name = this.area.value.slice(start, end);
    this.button.hidden = !name;
    this.button.textContent = `Mark “${name.length > 30 ? `${name.slice(0, 29)}…` : name}”`;
  }

  render() {
    this.area.setCustomValidity("");
    this.backdrop.replaceChildren();
    let done = 0;
    for (const { start, end } of this.spans) {
      const mark = document.createElement("mark");
      mark.textContent = this.text.slice(start, end);
      this.backdrop.append(this.text.slice(done, start), mark);
      done = end;
    }
    // A line end at the very end takes room in a text area, but not in a plain element.
    this.backdrop.append(`${this.text.slice(done)}\u200b`);
    this.chips.replaceChildren(...this.spans.map((span) => this.chip(span)));
    this.showButton();
    this.fit();
  }

  chip(span) {
    const name = this.text.slice(span.start, span.end);
    const item = document.createElement("li");
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "chip";
    remove.setAttribute("aria-label", `Unmark ${name}`);
    const cross = document.createElement("span");
    cross.textContent = "×";
    cross.setAttribute("aria-hidden", "true");
    remove.append(name, cross);
    remove.addEventListener("click", () => this.unmark(span));
    item.append(remove);
    return item;
  }

  /** The text area is as high as its text: then it never scrolls, and the marks behind it stay in place. */
  fit() {
    const lowest = this.area.dataset.lowest ?? (this.area.dataset.lowest = this.area.offsetHeight);
    const wanted = `${Math.max(Number(lowest), this.backdrop.scrollHeight + 2)}px`;
    if (this.area.style.height !== wanted) this.area.style.height = wanted;
  }
}

/** Returns the text without marks and where the mentions stood; marks that make no sense stay as text. */
function parse(marked) {
  let text = "";
  const spans = [];
  let rest = marked;
  for (;;) {
    const start = rest.indexOf(START);
    const end = rest.indexOf(END, start + START.length);
    if (start < 0 || end < 0) return { text: text + rest, spans };
    const name = rest.slice(start + START.length, end).trim();
    text += rest.slice(0, start);
    if (name) spans.push({ start: text.length, end: text.length + name.length });
    text += name;
    rest = rest.slice(end + END.length);
  }
}
