// The theme leaves the search dialog without a name for screen readers.
document.querySelector('[role="dialog"]')?.setAttribute("aria-label", "Search");
