/** True while a dialog is open: shortcuts of the page are off then. */
export function isDialogOpen(): boolean {
  return document.querySelector("[role=dialog]") !== null;
}

/** True while a dialog or a menu is open: the next Escape closes it. */
export function isOverlayOpen(): boolean {
  return document.querySelector("[role=dialog], [role=menu]") !== null;
}
