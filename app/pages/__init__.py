"""HTML, one router a page, one frozen view model a template."""
