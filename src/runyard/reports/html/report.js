// Sorting by a click on a table's head; everything can be read without it.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  const key = (row, at) => {
    const text = row.cells[at].textContent.trim();
    const number = parseFloat(text.replace(/[,±\s]/g, "").replace("−", "-"));
    return Number.isNaN(number) ? text : number;
  };
  heads.forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...body.rows].sort((a, b) => {
        const [x, y] = [key(a, at), key(b, at)];
        const order = typeof x === "number" && typeof y === "number"
          ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
        return down ? -order : order;
      });
      body.append(...rows);
    });
  });
}
for (const open of ["beforeprint", "afterprint"]) {
  window.addEventListener(open, () => {
    for (const each of document.querySelectorAll("details")) each.open = open === "beforeprint";
  });
}
