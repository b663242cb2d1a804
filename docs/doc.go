// Package docs holds the manual's page on configurations, from which the program
// takes its descriptions: there is one text of every key.
//
// It imports nothing else of this module.
package docs
