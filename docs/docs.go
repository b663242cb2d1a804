package docs

import _ "embed" // the page

// Configuration is configuration.md.
//
//go:embed configuration.md
var Configuration string
