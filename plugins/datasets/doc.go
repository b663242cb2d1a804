// Package datasets lists the built-in data sets by the names that a TOML uses.
//
// It imports core/sdk and the data sets below plugins/datasets. Start with
// datasets.go.
package datasets
