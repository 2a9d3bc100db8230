/** Says whether a dialog is open. While one is, shortcuts for the page behind it are off. */
export function isDialogOpen(): boolean {
  return document.querySelector("[role=dialog]") !== null;
}

/** Says whether a dialog or a menu is open, which the next Escape closes. */
export function isOverlayOpen(): boolean {
  return document.querySelector("[role=dialog], [role=menu]") !== null;
}
