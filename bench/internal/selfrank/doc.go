// Package selfrank is what measuring programs share whose executable is also their ranks and
// those ranks' backend plugin.
//
// It imports core/bench, core/job/launch, core/plugin/host, core/sdk and plugins/backend-tcp. Start with
// selfrank.go.
package selfrank
