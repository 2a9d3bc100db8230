/** A ref callback for an input that replaces the button that was pressed: the keyboard goes on there. */
export function focusOnMount(element: HTMLElement | null): void {
  element?.focus();
}
