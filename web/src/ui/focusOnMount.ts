/** A ref callback for an input that replaces the button that was pressed: it takes over the focus. */
export function focusOnMount(element: HTMLElement | null): void {
  element?.focus();
}
