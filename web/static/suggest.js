// Fields that ask for a name offer those of documents as one types; without scripts they are plain fields.

const WAIT_MS = 150;

for (const field of document.querySelectorAll("input[data-suggest]")) {
  const list = document.createElement("datalist");
  list.id = `${field.name}-suggested`;
  field.after(list);
  field.setAttribute("list", list.id);
  let timer = 0;
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(() => fill(field, list), WAIT_MS);
  });
}

async function fill(field, list) {
  const prefix = field.value.trim();
  if (prefix.length < 2) {
    list.replaceChildren();
    return;
  }
  const answer = await fetch(`${field.dataset.suggest}?${new URLSearchParams({ prefix })}`).catch(() => null);
  if (!answer?.ok) return;
  const { result } = await answer.json();
  if (field.value.trim() !== prefix) return;
  list.replaceChildren(
    ...result.map((each) => Object.assign(document.createElement("option"), { value: each.name })),
  );
}
