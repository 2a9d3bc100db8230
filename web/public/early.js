// Before the page's own script, and so no module.

// The theme that was chosen on this device. src/theme.ts chooses it.
{
  let theme = null;
  try {
    theme = localStorage.getItem("dragoman.theme");
  } catch {
    // Where nothing may be stored, the system decides.
  }
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
}

// The address of a session: its view is loaded beside the page's script, not after it. The build names the scripts.
if (location.pathname.startsWith("/s/")) {
  const names = document.querySelector("meta[name=session-scripts]")?.content ?? "";
  for (const href of names.split(" ").filter(Boolean)) {
    const link = document.createElement("link");
    Object.assign(link, { rel: "modulepreload", crossOrigin: "", href });
    document.head.append(link);
  }
}
