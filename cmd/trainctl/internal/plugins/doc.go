// Package plugins has the commands of trainctl plugins, which list, describe, verify,
// lock, test and create plugins.
//
// It imports cmd/trainctl/internal and core. Start with plugins.go.
package plugins
