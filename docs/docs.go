// Package docs holds the manual's page on configurations, from which the program
// takes its descriptions: there is one text of every key.
package docs

import _ "embed" // the page

// Configuration is configuration.md.
//
//go:embed configuration.md
var Configuration string
