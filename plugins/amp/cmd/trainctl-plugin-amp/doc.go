// Command trainctl-plugin-amp is the precision plugin "amp" as a program of its own.
//
// It imports core/sdk and plugins/amp.
package main
