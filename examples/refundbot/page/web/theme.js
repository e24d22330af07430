// Sets the theme before anything is shown. Without a choice of the user the system's holds.
(() => {
  let chosen = null;
  try { chosen = localStorage.getItem("holdfast:theme"); } catch { /* storage is forbidden */ }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
