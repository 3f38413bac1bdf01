// Runs before the page is drawn: a theme that was chosen is in force at once.
(function () {
  try {
    var t = localStorage.getItem("hubbub-theme");
    if (t === "light" || t === "dark") document.documentElement.dataset.theme = t;
  } catch (e) { /* no storage: the system's theme */ }
})();
