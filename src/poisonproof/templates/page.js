"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const all = (selector) => [...document.querySelectorAll(selector)];
  const count = (number) => number.toLocaleString("en-US");
  const percent = (part, whole) => (Math.floor((part * 1000) / whole) / 10).toFixed(1) + " %";
  const percentOf = (share) => (Math.floor(share * 1000 + 1e-9) / 10).toFixed(1) + " %";
  const states = {
    certified: ["✓", "certified"],
    open: ["?", "not certified"],
    wrong: ["✕", "wrong"],
  };
  const slider = find("#size");
  const tiles = all(".tile");
  const certifiedCells = all("[data-class]");
  let selected = 0;

  const stateOf = (tile, size) => (!tile.right ? "wrong" : tile.radius >= size ? "certified" : "open");
  const held = (radii, size) => radii.reduce((sum, [radius, n]) => sum + (radius >= size ? n : 0), 0);

  function element(name, className, text) {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
  }

  // A count with its noun: "1 vote", "2 votes".
  function countInto(place, number) {
    find(place).textContent = count(number);
    const noun = find(place).parentElement.querySelector("[data-many]");
    noun.textContent = number === 1 ? noun.dataset.many.replace(/s$/, "") : noun.dataset.many;
  }

  function attack() {
    const size = Number(slider.value);
    const perClass = data.classes.map((one) => held(one.radii, size));
    const certified = perClass.reduce((sum, n) => sum + n, 0);
    document.documentElement.style.setProperty("--at", (100 * size) / data.top + "%");
    countInto("#size-now", size);
    slider.setAttribute("aria-valuetext", count(size) + " " + data.unit);
    find("#certified").textContent = count(certified);
    find("#certified-share").textContent = percent(certified, data.n);
    const shares = data.classes.map((one, at) => (one.n ? perClass[at] / one.n : 0));
    const balanced = shares.reduce((sum, share) => sum + share, 0) / data.labels;
    find("#certified-balanced").textContent = percentOf(balanced);
    find("#open").textContent = count(data.n - data.wrong - certified);
    for (const cell of certifiedCells) {
      const at = Number(cell.dataset.class);
      cell.textContent = data.classes[at].n ? percent(perClass[at], data.classes[at].n) : "–";
    }
    for (const at of all(".size-now")) at.textContent = count(size);
    tiles.forEach((button, at) => {
      const state = stateOf(data.tiles[at], size);
      if (button.dataset.state === state) return;
      button.dataset.state = state;
      [button.querySelector(".sign").textContent, button.querySelector(".state").textContent] = states[state];
    });
    verdict();
  }

  function verdict() {
    const tile = data.tiles[selected];
    const size = Number(slider.value);
    const state = stateOf(tile, size);
    const place = find("#sample-state");
    place.dataset.state = state;
    place.textContent = states[state][0] + " " + states[state][1] + (state === "wrong" ? "" : " at attack size " + count(size));
  }

  function voteRow(name, votes, most, tags) {
    const row = element("tr");
    const head = element("th", "", name);
    head.scope = "row";
    for (const tag of tags) head.append(" ", element("span", "tag", tag));
    const cell = element("td", "bar-cell");
    const bar = element("span", "bar");
    bar.style.width = (100 * votes) / Math.max(most, 1) + "%";
    if (tags.includes("prediction")) bar.classList.add("first");
    cell.append(bar);
    row.append(head, element("td", "number", count(votes)), cell);
    return row;
  }

  function show(at) {
    const tile = data.tiles[at];
    tiles[selected].removeAttribute("aria-current");
    tiles[selected].tabIndex = -1;
    selected = at;
    tiles[at].setAttribute("aria-current", "true");
    tiles[at].tabIndex = 0;
    find("#sample-title").textContent = "Test sample " + count(tile.row);
    const picture = tiles[at].querySelector("img");
    find("#sample-picture").hidden = !picture;
    if (picture) find("#sample-picture").src = picture.src;
    const facts = {
      "#sample-prediction": tile.prediction,
      "#sample-truth": tile.truth,
      "#sample-runner-up": tile.runner_up,
    };
    for (const [place, text] of Object.entries(facts)) find(place).textContent = text;
    countInto("#sample-margin", tile.margin);
    countInto("#sample-radius", tile.radius);
    const why = find("#unseen");
    if (why) why.hidden = tile.runner_up !== data.unseen;
    const most = Math.max(...tile.votes.map(([, votes]) => votes), tile.others, tile.abstained);
    const rows = tile.votes.map(([name, votes, tags]) => voteRow(name, votes, most, tags));
    if (tile.others) rows.push(voteRow("all other classes", tile.others, most, []));
    if (tile.abstained) rows.push(voteRow("abstained", tile.abstained, most, []));
    find("#votes tbody").replaceChildren(...rows);
    find("#sample-cells").hidden = tile.cells.length === 0;
    find("#sample-cells").replaceChildren(
      ...tile.cells.flatMap(([name, value]) => [element("dt", "", name), element("dd", "", value)]),
    );
    verdict();
  }

  // On a phone the card stands right under what was tapped; on a wide screen, in its own column.
  const narrow = window.matchMedia("(max-width: 50rem)");
  function beside(button, follow = true) {
    const card = find("#sample");
    if (narrow.matches) {
      const row = button.closest("li");
      const top = (item) => item.getBoundingClientRect().top;
      let last = row;
      while (last.nextElementSibling?.matches("li") && top(last.nextElementSibling) === top(row)) last = last.nextElementSibling;
      if (!card.matches("li > *")) card.remove();
      const place = find("#card-place") || element("li", "card-place");
      place.id = "card-place";
      place.replaceChildren(card);
      last.after(place);
    } else if (card.parentElement !== find(".beside")) {
      find("#card-place")?.remove();
      find(".beside").append(card);
    }
    if (follow) card.scrollIntoView({ block: "nearest" });
  }
  narrow.addEventListener("change", () => beside(tiles[selected], false));

  const steps = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  find("#gallery").addEventListener("keydown", (event) => {
    const at = tiles.indexOf(event.target);
    if (at < 0 || !(event.key in steps) || event.altKey || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    tiles[Math.min(Math.max(at + steps[event.key], 0), tiles.length - 1)].focus();
  });
  tiles.forEach((button, at) => {
    button.tabIndex = at ? -1 : 0;
    button.addEventListener("click", () => {
      show(at);
      beside(button);
    });
  });
  slider.addEventListener("input", attack);
  show(0);
  beside(tiles[0], false);
  attack();
})();
