/** The dialogue as a list of turns, one field each; what is sent is the same as without scripts. */
export function startTurns() {
  const editor = document.getElementById("turn-editor");
  if (editor) new TurnEditor(editor);
}

class TurnEditor {
  constructor(editor) {
    const area = editor.querySelector("textarea");
    const turns = area.value.split("\n").map((turn) => turn.trim()).filter(Boolean);
    this.list = document.createElement("ol");
    this.list.className = "turns";
    this.add = document.createElement("button");
    this.add.type = "button";
    this.add.className = "button button--quiet";
    this.add.textContent = "Add a turn";
    this.add.addEventListener("click", () => this.append("").focus());
    const label = editor.querySelector("label");
    const group = document.createElement("div");
    group.setAttribute("role", "group");
    group.setAttribute("aria-labelledby", (label.id = "dialogue-label"));
    group.append(this.list, this.add);
    area.replaceWith(group);
    label.removeAttribute("for");
    for (const turn of turns.length ? turns : ["", ""]) this.append(turn);
  }

  append(text, before = null) {
    const item = document.createElement("li");
    item.className = "turns__turn";
    const field = document.createElement("textarea");
    field.className = "input turns__field";
    field.name = "turn";
    field.rows = 1;
    field.value = text;
    field.dataset.search = "";
    field.addEventListener("keydown", (event) => this.pressed(event, item));
    field.addEventListener("paste", (event) => this.pasted(event, item));
    field.addEventListener("input", () => fit(field));
    const remove = document.createElement("button");
    remove.type = "button";
    remove.className = "turns__remove";
    remove.textContent = "×";
    remove.addEventListener("click", () => this.remove(item));
    item.append(field, remove);
    this.list.insertBefore(item, before);
    fit(field);
    this.number();
    return field;
  }

  /** Enter begins the next turn, as in a chat; with Ctrl the form is sent. */
  pressed(event, item) {
    const field = event.target;
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      if (event.ctrlKey || event.metaKey) field.form.requestSubmit();
      else this.append("", item.nextSibling).focus();
    } else if (event.key === "Backspace" && !field.value && this.list.children.length > 1) {
      event.preventDefault();
      this.remove(item);
    }
  }

  /** Several lines are several turns. */
  pasted(event, item) {
    const lines = (event.clipboardData?.getData("text") ?? "").split(/\r?\n/).map((line) => line.trim()).filter(Boolean);
    if (lines.length < 2) return;
    event.preventDefault();
    const field = event.target;
    field.value += lines[0];
    fit(field);
    let last = field;
    for (const line of lines.slice(1)) last = this.append(line, last.closest("li").nextSibling);
    last.focus();
  }

  remove(item) {
    const near = item.previousElementSibling ?? item.nextElementSibling;
    if (!near) item.querySelector("textarea").value = "";
    else item.remove();
    this.number();
    (near ?? item).querySelector("textarea").focus();
  }

  number() {
    const all = [...this.list.children];
    all.forEach((item, index) => {
      const last = index === all.length - 1;
      item.classList.toggle("turns__turn--last", last);
      const field = item.querySelector("textarea");
      field.setAttribute("aria-label", last ? `Turn ${index + 1}, to be answered` : `Turn ${index + 1}`);
      field.required = last;
      item.querySelector(".turns__remove").setAttribute("aria-label", `Remove turn ${index + 1}`);
    });
  }
}

function fit(field) {
  field.style.height = "auto";
  field.style.height = `${field.scrollHeight + 2}px`;
}
