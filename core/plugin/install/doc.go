// Package install copies plugins into the folder of installed plugins, from a folder, an
// archive, an https address or a Go module, and removes them from there.
//
// A plugin is complete in a temporary folder beside its final place before it is renamed
// to it, so an installation that fails or is killed leaves no part of a plugin. What an
// archive contains cannot leave that folder.
//
// It imports core/base/pattern, core/plugin/host, core/plugin/registry and core/sdk. Start with install.go.
package install
