// A line of the log that is pasted into the search loses what no page has: names, figures and quotation marks, and words that every page has.
const everywhere = /^(an?|and|are|as|at|be|by|for|from|had|has|have|in|is|its?|no|none|not|of|on|or|so|that|the|this|to|was|which|with)$/i;

document.addEventListener("paste", (event) => {
  if (!event.target.matches(".md-search__input")) return;
  event.preventDefault();
  const words = event.clipboardData.getData("text").replace(/"[^"\s]*"|["\\'`(),;]/g, " ").split(/[\s=]+/);
  event.target.value = words.filter((w) => !/[\d:/]/.test(w.replace(/:$/, "")) && !everywhere.test(w)).map((w) => w.replace(/:$/, "")).join(" ");
  event.target.dispatchEvent(new Event("input", { bubbles: true }));
  event.target.dispatchEvent(new KeyboardEvent("keyup", { bubbles: true }));
});
