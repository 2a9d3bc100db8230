// Before the first paint, and so no module: the theme that was chosen on this device. src/theme.ts chooses it.
{
  let theme = null;
  try {
    theme = localStorage.getItem("dragoman.theme");
  } catch {
    // Where nothing may be kept, the system decides.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}
